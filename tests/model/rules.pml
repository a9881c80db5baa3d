/* The rules of credit for one direction of one session (net/PROTOCOL.md, sections 5, 6.3 and 13): what may
 * happen, and what is then so. Nothing here knows channels, time or users.
 *
 * Two programs share these rules. credit.pml lets everything happen that may, and is searched whole. replay.pml
 * is told what happened in a run of the simulation, and stops where a rule did not allow it.
 *
 * Bytes and messages obey the same rules, each with a ledger of its own: credit.pml has one, replay.pml both.
 * `number` is the type of an offset: a byte where every state counts, an int where real offsets come. */

typedef ledger {
  /* the sender's half */
  number sent;       /* handed over */
  number limit;      /* it must not send beyond */
  number epoch_out;
  /* the receiver's half */
  number received;
  number consumed;   /* its memory has died */
  number granted;    /* the highest limit that was said in this epoch */
  number epoch_in;
  bool reclaiming;   /* `reclaim` was said, `reclaimed` has not come */
  bool settled       /* the final counts have come: granted is what was sent */
}

#define highest(a, b) ((a) > (b) -> (a) : (b))
#define lowest(a, b) ((a) < (b) -> (a) : (b))

/* What we owe: granted and not yet given back. */
#define liability(d) (d.granted - d.consumed)

/* ---- data */

#define may_send(d, cost) (d.sent + (cost) <= d.limit)
inline send(d, cost) { d.sent = d.sent + (cost) }

#define may_arrive(d, cost) (d.received + (cost) <= d.granted)
inline arrive(d, cost) { d.received = d.received + (cost) }

#define may_consume(d, cost) (d.consumed + (cost) <= d.received)
inline consume(d, cost) { d.consumed = d.consumed + (cost) }

/* ---- grants (5.2): absolute, the maximum counts, older epochs do not, a newer one becomes the sender's own.
 * `most`: what W and what was funded allow. */

#define may_grant(d, to, most) (!d.reclaiming && !d.settled && (to) >= d.granted && (to) <= (most))
inline grant(d, to) { d.granted = to }

inline hear_grant(d, epoch, to) {
  if
#ifdef MUTATE_OLD_EPOCHS
  :: d.limit = highest(d.limit, to)
#else
  :: (epoch) < d.epoch_out -> skip
  :: else -> d.epoch_out = epoch;
#ifdef MUTATE_RELATIVE_GRANTS
     d.limit = d.limit + (to)   /* credit.pml says increments instead of offsets then */
#else
     d.limit = highest(d.limit, to)
#endif
#endif
  fi
}

/* ---- reclaim (5.5): the sender gives back what is beyond `keep` from where it stands. Whoever says it answers
 * with the new limit. */

#define may_reclaim(d) (!d.reclaiming && !d.settled)
inline reclaim(d) {
  d.epoch_in = d.epoch_in + 1;
  d.reclaiming = true
}

#define is_newer(d, epoch) ((epoch) > d.epoch_out)
inline hear_reclaim(d, epoch, keep) {
  d.epoch_out = epoch;
  d.limit = lowest(d.limit, keep)
}

#define may_be_reclaimed(d, epoch, to) \
  (d.reclaiming && (epoch) == d.epoch_in && d.received <= (to) && (to) <= d.granted)
inline hear_reclaimed(d, to) {
  d.granted = to;
  d.reclaiming = false
}

/* ---- the end (6.2, 6.3): final counts settle what was granted and never sent. */

#define may_settle(d, final) (d.received <= (final) && (final) <= d.granted)
inline settle(d, final) {
  d.granted = final;
  d.reclaiming = false;
  d.settled = true
}

/* ---- resume (13): what was under way on the old link is void, so is a reclaim. The receiver names anew what it
 * has and what may come, the sender goes on from there. */

inline resume_in(d, ration) {
  d.epoch_in = d.epoch_in + 1;
  if
  :: d.settled -> skip
  :: else -> d.reclaiming = false; d.granted = highest(d.received, d.consumed + (ration))
  fi
}
inline resume_out(d, epoch, has, to) {
  d.epoch_out = epoch;
  d.sent = has;
  d.limit = to
}
