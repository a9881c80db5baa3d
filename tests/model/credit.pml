/* Credit of one direction of one session, with everything that may go wrong: a model for SPIN.
 *
 *   sender  --- up: data, answers, last words (ordered, lossless) --->  receiver  --->  consumer
 *           <-- down: reclaim, abort, closed, resumed (the same) -----
 *           <-- grants (lossy, doubling, re-ordering) ----------------
 *           --- blocked (lossy, may overtake data) ------------------>
 *
 * `trouble` starts reclaims, aborts the session from either side, cuts the link (what is in `up` and `down` is
 * lost, late grants survive), loses, doubles and swaps grants, and lets other sessions take the budget's rest.
 * README.md says what is proved and what is left out; rules.pml holds the arithmetic. */

#ifndef MESSAGES
#define MESSAGES 3        /* to be sent, costing 1, 2, 1, 2, ... */
#endif
#ifndef RATION
#define RATION 3          /* W at the start */
#endif
#ifndef CHANGES
#define CHANGES 0         /* of W: it grows, shrinks or is reclaimed between FLOOR and MOST */
#endif
#if CHANGES
#define MOST (RATION + 1) /* the budget */
#else
#define MOST RATION
#endif
#define FLOOR 2           /* what a reclaim leaves: any one message */
#define FLIGHT 2          /* data frames under way in `up` */
#ifndef MISCHIEF
#define MISCHIEF 2        /* grants or blockeds that are lost, doubled or swapped */
#endif
#ifndef CUTS
#define CUTS 1            /* of the link */
#endif
#ifndef RECLAIMS
#define RECLAIMS 1
#endif
#ifndef ABORTS
#define ABORTS 1          /* 1: either side may abort, at any time; both at once, too */
#endif

#define number byte
#include "rules.pml"

mtype:word = { data, reclaim_, reclaimed, abort_, close_, closed, resume_, resumed, refused };
chan up = [FLIGHT + 4] of { mtype:word, byte, byte };          /* room for control is never used up by data */
chan down = [4] of { mtype:word, byte, byte, byte };
chan grants = [2] of { byte, byte, byte };                     /* epoch, limit, received */
chan blockeds = [1] of { byte };                               /* epoch */

/* The costs 1, 2, 1, 2, ... and their sums: message n has the number n, it begins at offset(n). */
#define cost(n) (1 + ((n) & 1))
#define offset(n) ((n) + ((n) >> 1))

ledger x;

/* ---- the sender */
mtype:sender_state = { sending, lost, resuming, over };
mtype:sender_state s = sending;
byte next_out;            /* the message to be sent next */
byte known_received;      /* from grants: what is before it need not be kept for a resume */
bool is_blocked;
bool close_said;

/* ---- the receiver */
mtype:receiver_state = { receiving, tombstone, finished, buried };
mtype:receiver_state r = receiving;
bool r_lost;              /* its link is gone and no resume has come */
byte next_in;             /* the message that must come next */
byte next_dead;           /* the message whose memory dies next */
byte ration = RATION;     /* W */
bool grant_due;           /* something must be said: the limit, be it new or old */
bool closed_due;

/* What it has charged to its budget: no less than it owes, so that the others may use the rest. A live session
 * keeps its W charged. Recomputed where the receiver recomputes it, not where it happens to be true. */
byte charged = RATION;

byte mischief = MISCHIEF, cuts = CUTS, reclaims = RECLAIMS, changes = CHANGES;
bool may_abort_out = ABORTS, may_abort_in = ABORTS;

#define all_over (s == over && (r == finished || r == buried) && x.consumed == x.received && !closed_due)

/* S1 .. S4 of README.md, after every step. */
inline check() {
  assert(x.consumed <= x.received && x.received <= x.granted);                            /* S1 */
  assert(s != sending || (x.sent <= x.limit && (r_lost || x.sent <= x.granted)));         /* S2 */
  assert(s != sending || x.settled || r_lost || x.limit <= x.granted);                    /* S2 */
  assert(liability(x) <= charged && charged <= MOST);                                     /* S3 */
  assert(x.received - x.consumed <= charged)                                              /* S3 */
}

/* Gives back to the budget what is no longer owed. */
inline recharge() {
  charged = (r == receiving -> highest(ration, lowest(liability(x), charged)) : liability(x))
}

/* ---- what the sender does */

inline say_blocked() {
  is_blocked = true;
  if
  :: nfull(blockeds) -> blockeds!x.epoch_out
  :: full(blockeds) -> skip     /* a state, not a queue: the same word is there */
  fi
}

inline on_grant() {
  grants?e, to, has;
  if
  :: s == sending ->
     hear_grant(x, e, to);
     if
     :: e >= x.epoch_out -> known_received = highest(known_received, has)
     :: else -> skip
     fi
  :: else -> skip               /* not before `resumed`, not when it is over */
  fi;
  e = 0; to = 0; has = 0
}

#ifdef MUTATE_RECLAIM_IGNORES_SENT
#define kept (offset(known_received) + FLOOR)
#else
#define kept (x.sent + FLOOR)
#endif

inline on_down() {
  down?w, e, has, to;
  if
  :: w == reclaim_ && is_newer(x, e) && s == sending ->
     hear_reclaim(x, e, kept);
     up!reclaimed(e, x.limit)
  :: w == abort_ && s != over -> up!closed(x.sent, 0); s = over; is_blocked = false
  :: w == closed || w == refused -> s = over; is_blocked = false
  :: w == resumed ->
     assert(known_received <= has && has <= next_out);                                    /* S4: it still has all */
#ifndef MUTATE_RESUME_FROM_SENT
     next_out = has;
#endif
     resume_out(x, e, offset(next_out), to);
     s = sending
  :: else -> skip
  fi;
  w = data; e = 0; has = 0; to = 0
}

/* Time: the timer of `blocked` is longer than a round trip, so all that was under way has come or is lost. */
#define quiet (empty(up) && empty(down) && empty(grants) && empty(blockeds) && !grant_due)

proctype sender() {
  mtype:word w = data;
  byte e, to, has;
  do
  :: atomic { s == sending && next_out < MESSAGES && len(up) < FLIGHT && may_send(x, cost(next_out)) ->
       send(x, cost(next_out));
       up!data(next_out, 0);
       next_out++;
       is_blocked = false;
       check() }
  :: atomic { s == sending && next_out < MESSAGES && !may_send(x, cost(next_out)) && !is_blocked ->
       say_blocked() }
#ifndef MUTATE_BLOCKED_ONCE
  :: atomic { is_blocked && !may_send(x, cost(next_out)) && quiet ->
       say_blocked() }
#endif
  :: atomic { s == sending && next_out == MESSAGES && !close_said ->
       up!close_(x.sent, 0); close_said = true }
  :: atomic { nempty(grants) -> on_grant(); check() }
  :: atomic { nempty(down) -> on_down(); check() }
  :: atomic { s == lost -> up!resume_(0, 0); s = resuming }
  :: atomic { all_over -> break }
  od
}

/* ---- what the receiver does */

inline on_data() {
  assert(has == next_in);                                                                 /* S4 */
  assert(may_arrive(x, cost(has)));                                                       /* S1 */
  arrive(x, cost(has));
  next_in++;
  check();
  if
  :: r == tombstone && next_dead == has -> consume(x, cost(has)); next_dead++; recharge() /* discarded and counted */
  :: else -> skip                                                                         /* behind what still lives */
  fi
}

inline on_resume() {
  if
  :: r == buried -> down!refused(0, 0, 0)
  :: else ->
     resume_in(x, ration);
     r_lost = false; recharge();
     closed_due = false;
     down!resumed(x.epoch_in, next_in, x.granted)
  fi
}

inline on_up() {
  up?w, has, to;
  if
  :: w == data -> on_data()
  :: w == reclaimed && r == receiving ->
     assert(may_be_reclaimed(x, has, to));                                                /* S1: received <= limit */
     hear_reclaimed(x, to); recharge()
  :: w == close_ && (r == receiving || r == finished) ->
     assert(has == x.received && may_settle(x, has));
     settle(x, has); r = finished; recharge(); grant_due = false; closed_due = true
  :: w == closed || w == abort_ ->
     assert(may_settle(x, has));
     settle(x, has); r = buried; recharge(); grant_due = false; closed_due = false
  :: w == resume_ -> on_resume()
  :: else -> skip
  fi;
  w = data; has = 0; to = 0
}

/* A grant takes along what is unadvertised. */
inline say_grant() {
  to = highest(x.granted, x.consumed + ration);
  assert(may_grant(x, to, highest(x.granted, x.consumed + ration)));
#ifdef MUTATE_RELATIVE_GRANTS
  grants!x.epoch_in, to - x.granted, next_in;
#else
  grants!x.epoch_in, to, next_in;
#endif
  grant(x, to);
  grant_due = false;
  to = 0
}

#define may_talk (r == receiving && !r_lost)

proctype receiver() {
  mtype:word w = data;
  byte has, to;
  do
  :: atomic { nempty(up) -> on_up(); check() }
  :: atomic { nempty(blockeds) -> blockeds?_;
       if
       :: may_talk -> grant_due = true     /* always answered; during a reclaim behind `reclaimed` */
       :: else -> skip
       fi }
  :: atomic { may_talk && !x.reclaiming && nfull(grants) &&
              (grant_due || x.consumed + ration > x.granted) ->     /* asked, or unadvertised on a tick */
       say_grant(); check() }
  :: atomic { closed_due && x.consumed == x.received && nfull(down) && !r_lost ->
       down!closed(0, 0, 0); closed_due = false }
  :: atomic { r_lost && s == over && (r == receiving || r == finished) ->              /* nobody resumes it in time */
       settle(x, x.received); r = buried; recharge(); grant_due = false; closed_due = false; check() }
  :: atomic { all_over -> break }
  od
}

/* Memory dies, on whatever thread: in order, which is all the same to the sums. */
proctype consumer() {
  do
  :: atomic { x.consumed < x.received ->
       assert(may_consume(x, cost(next_dead)));
       consume(x, cost(next_dead)); next_dead++; recharge(); check() }
  :: atomic { all_over -> break }
  od
}

/* ---- what may go wrong */

inline cut() {
  do
  :: up?_, _, _
  :: down?_, _, _, _
  :: empty(up) && empty(down) -> break
  od;
  if
  :: s != over -> s = lost; is_blocked = false; close_said = false
  :: else -> skip
  fi;
  if
  :: r == tombstone -> settle(x, x.received); r = buried; recharge()     /* the old link is fenced: nothing can come */
  :: r == receiving || r == finished -> r_lost = true
  :: else -> skip
  fi;
  grant_due = false
}

proctype trouble() {
  byte e, to, has;
end:
  do
#ifdef LIVENESS
  /* From now on there is peace. Without it weak fairness would promise that all that may go wrong does. */
  :: atomic { mischief = 0; cuts = 0; reclaims = 0; changes = 0; may_abort_out = false; may_abort_in = false; break }
#endif
  /* words */
  :: atomic { mischief > 0 && nempty(grants) -> grants?e, to, has; mischief--;             /* lost */
       e = 0; to = 0; has = 0 }
  :: atomic { mischief > 0 && nempty(grants) && nfull(grants) -> grants?<e, to, has>;      /* doubled */
       grants!e, to, has; mischief--; e = 0; to = 0; has = 0 }
  :: atomic { mischief > 0 && full(grants) -> grants?e, to, has; grants!e, to, has;        /* swapped */
       mischief--; e = 0; to = 0; has = 0 }
  :: atomic { mischief > 0 && nempty(blockeds) -> blockeds?_; mischief-- }                 /* lost */
  /* the link */
  :: atomic { cuts > 0 && !all_over -> cuts--; cut(); check() }
  /* the receiver's affair: what it pays for before it grants it. Shrinking takes nothing back by itself */
  :: atomic { changes > 0 && r == receiving && ration < MOST -> changes--;
       ration++;
#ifndef MUTATE_GROWS_UNPAID
       charged = highest(charged, ration);
#endif
       check() }
  :: atomic { changes > 0 && r == receiving && ration > FLOOR -> changes--;
       ration--; recharge(); check() }
  /* the users */
  :: atomic { reclaims > 0 && may_talk && may_reclaim(x) && nfull(down) -> reclaims--;
       ration = lowest(ration, FLOOR);
       reclaim(x); down!reclaim_(x.epoch_in, 0, 0); check() }
  :: atomic { may_abort_in && may_talk && nfull(down) -> may_abort_in = false;
       r = tombstone;
#ifdef MUTATE_ABORT_FREES
       charged = x.received - x.consumed;
#endif
       grant_due = false; x.reclaiming = false; down!abort_(0, 0, 0); check() }
  :: atomic { may_abort_out && s == sending -> may_abort_out = false;
       up!abort_(x.sent, 0); s = over; is_blocked = false; check() }
  od
}

init { atomic {
  x.granted = RATION; x.limit = RATION;     /* said by `opened` */
  run sender(); run receiver(); run consumer(); run trouble() } }

/* ---- liveness, each under weak fairness */
ltl L1_blocked_sends { [] (is_blocked -> <> !is_blocked) }
ltl L2_reclaim_ends { [] (x.reclaiming -> <> !x.reclaiming) }
ltl L3_abort_settles { [] (r == tombstone -> <> (r == buried && charged == 0)) }
ltl L4_all_ends { <> (all_over && charged == 0) }
