/* Holds what happened in a run of the simulation against the rules of credit: spin -T replay.pml < EVENTS
 * An event is a letter and numbers; which, says the table in README.md (tests/simulation/credit_log.cpp writes
 * them). One direction of one session after the other, each begun by N; a full stop ends it all. An event that no
 * rule allows is a failed assertion. */
#define number int
#include "rules.pml"

chan STDIN;
ledger bytes, messages;
int n[10];      /* of the event */
int line;
int before;     /* the limit before a reclaim was heard: a promise may keep more than the floor */
bool closes;    /* the final counts have come: what is still heard is late */

inline read(count) {
  i = 0;
  do
  :: i < (count) ->
     STDIN?c; v = 0;
     do
     :: c == ' ' -> STDIN?c
     :: c >= '0' && c <= '9' -> v = v * 10 + (c - '0'); STDIN?c
     :: c == 10 -> break
     :: c == ',' -> break
     od;
     n[i] = v; i++
  :: else -> break
  od
}

/* One ledger's part of a receiver's state: what must have happened since the last one. */
inline receiver_is(d, received_, consumed_, granted_, most) {
  assert(received_ == d.received);
  assert(consumed_ >= d.consumed);
  v = consumed_ - d.consumed;
  assert(may_consume(d, v));
  consume(d, v);
  if
  :: n[6] != d.epoch_in -> assert(n[6] == d.epoch_in + 1 && may_reclaim(d)); reclaim(d)
  :: else -> skip
  fi;
  if
  :: granted_ != d.granted -> assert(may_grant(d, granted_, most)); grant(d, granted_)
  :: else -> skip
  fi;
  assert(d.reclaiming == n[7])
}

inline sender_is(d, sent_, limit_) {
  assert(limit_ == d.limit || (limit_ > d.limit && limit_ <= before));
  d.limit = limit_;
  assert(sent_ >= d.sent);
  v = sent_ - d.sent;
  assert(may_send(d, v));
  send(d, v);
  assert(d.epoch_out == n[4])
}

/* What was handed over in the step that ended its session is seen when it comes. */
inline sent_at_least(d, at) {
  if
  :: at > d.sent -> v = at - d.sent; assert(may_send(d, v)); send(d, v)
  :: else -> skip
  fi
}

inline begin(d) {
  d.sent = 0; d.limit = 0; d.epoch_out = 0; d.received = 0; d.consumed = 0; d.granted = 0; d.epoch_in = 0;
  d.reclaiming = false; d.settled = false
}

inline event() {
  if
  :: code == 'N' -> read(1); begin(bytes); begin(messages); before = 0; closes = false
  /* the receiver's state: received, consumed, granted (bytes, messages each), epoch, reclaiming, most */
  :: code == 'I' -> read(10);
     if
     :: closes -> skip
     :: else -> receiver_is(bytes, n[0], n[2], n[4], n[8]); receiver_is(messages, n[1], n[3], n[5], n[9])
     fi
  /* the sender's state: sent, limit, epoch */
  :: code == 'O' -> read(5);
     sender_is(bytes, n[0], n[2]); before = 0; sender_is(messages, n[1], n[3])
  /* data came */
  :: code == 'A' -> read(2);
     if
     :: closes -> skip
     :: else -> assert(may_arrive(bytes, n[0]) && may_arrive(messages, n[1]));
        arrive(bytes, n[0]); arrive(messages, n[1]);
        sent_at_least(bytes, bytes.received); sent_at_least(messages, messages.received)
     fi
  /* a grant, or the first limit, was heard: epoch, limit */
  :: code == 'g' -> read(3);
     assert(closes || n[0] < bytes.epoch_in || (n[1] <= bytes.granted && n[2] <= messages.granted));
     hear_grant(bytes, n[0], n[1]); hear_grant(messages, n[0], n[2])
  /* blocked was heard: epoch, limit, need */
  :: code == 'b' -> read(4);
     assert(n[0] <= bytes.epoch_in && n[3] > bytes.received)
  /* reclaim was heard: epoch, floor */
  :: code == 'r' -> read(3);
     assert(n[0] <= bytes.epoch_in);
     if
     :: is_newer(bytes, n[0]) -> before = bytes.limit;
        hear_reclaim(bytes, n[0], bytes.sent + n[1]); hear_reclaim(messages, n[0], messages.sent + n[2])
     :: else -> skip
     fi
  /* its answer was heard: epoch, limit */
  :: code == 'R' -> read(3);
     if
     :: closes -> skip
     :: else ->
        assert(may_be_reclaimed(bytes, n[0], n[1]) && may_be_reclaimed(messages, n[0], n[2]));
        hear_reclaimed(bytes, n[1]); hear_reclaimed(messages, n[2])
     fi
  /* final counts were heard */
  :: code == 'S' -> read(2);
     if
     :: closes -> assert(n[0] == bytes.granted && n[1] == messages.granted)
     :: else ->
        sent_at_least(bytes, n[0]); sent_at_least(messages, n[1]);
        assert(n[0] == bytes.sent && n[1] == messages.sent);
        assert(may_settle(bytes, n[0]) && may_settle(messages, n[1]));
        settle(bytes, n[0]); settle(messages, n[1]); closes = true
     fi
  fi
}

init {
  int code, c, v, i;
  do
  :: STDIN?code; line++;
     if
     :: code == '.' -> break
     :: else -> event()
     fi
  od;
  printf("accepted: %d events\n", line - 1)
}
