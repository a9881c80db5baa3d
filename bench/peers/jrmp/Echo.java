import java.rmi.Remote;
import java.rmi.RemoteException;

/** What the server offers. */
public interface Echo extends Remote {
    byte[] echo(byte[] body) throws RemoteException;

    /** Takes a body and answers with its length: one message of a stream. */
    int sink(byte[] body) throws RemoteException;
}
