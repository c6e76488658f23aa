//! Once-slots: keys under which one message is accepted per phase.
//!
//! Pure. The stores call [`claim`] inside the transaction that appends the message, so a slot never refers to a message
//! that was lost. The content does not matter: messages of different types may compete for one slot.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::id::MessageId;
use crate::limits::PHASE_MAX;
use crate::name::Name;

/// The round of a slot. It only ever increases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Phase(i64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be from 0 to {PHASE_MAX}")]
pub struct BadPhase;

impl Phase {
    /// Checks a phase that a caller sends.
    pub fn new(number: i64) -> Result<Phase, BadPhase> {
        if (0..=PHASE_MAX).contains(&number) { Ok(Phase(number)) } else { Err(BadPhase) }
    }

    /// Reads a stored phase. Resets may have raised it beyond the range of callers.
    pub const fn from_db(number: i64) -> Phase {
        Phase(number)
    }

    pub const fn to_db(self) -> i64 {
        self.0
    }

    const fn next(self) -> Phase {
        Phase(self.0.saturating_add(1))
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Serialize for Phase {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.0)
    }
}

/// A message's claim to a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnceClaim {
    /// The slot, within the message's application.
    pub key: Name,
    /// `None` means the current phase.
    pub phase: Option<Phase>,
}

/// A stored slot. It always has a winner, because only a claim creates a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnceSlot {
    pub phase: Phase,
    /// The message that was accepted last.
    pub winner: MessageId,
    /// The phase in which `winner` was accepted. The slot is open exactly if this is earlier than `phase`.
    pub winner_phase: Phase,
}

/// The result of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The message is accepted; the slot to write.
    Won(OnceSlot),
    /// An earlier message, returned here, has the slot. Nothing is sent or changed.
    Suppressed(MessageId),
}

impl OnceSlot {
    /// Whether the next claim for the current phase wins.
    pub fn is_open(&self) -> bool {
        self.winner_phase < self.phase
    }

    /// Opens the next phase. An open slot stays unchanged, so that a reset is idempotent.
    #[must_use]
    pub fn reset(self) -> OnceSlot {
        if self.is_open() { self } else { OnceSlot { phase: self.phase.next(), ..self } }
    }
}

/// Decides whether `message` gets `slot`; `None` means that the slot has never been claimed.
pub fn claim(slot: Option<OnceSlot>, phase: Option<Phase>, message: MessageId) -> Claimed {
    let won = |phase| Claimed::Won(OnceSlot { phase, winner: message, winner_phase: phase });
    let Some(slot) = slot else { return won(phase.unwrap_or_default()) };
    match phase {
        // A producer that counts its own recoveries can skip the reset and send a higher phase.
        Some(phase) if phase > slot.phase => won(phase),
        Some(phase) if phase < slot.phase => Claimed::Suppressed(slot.winner),
        _ if slot.is_open() => won(slot.phase),
        _ => Claimed::Suppressed(slot.winner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Id;

    const OLD: MessageId = MessageId(Id::MIN);
    const NEW: MessageId = MessageId(Id::MAX);

    fn slot(phase: i64, winner_phase: i64) -> OnceSlot {
        OnceSlot { phase: Phase(phase), winner: OLD, winner_phase: Phase(winner_phase) }
    }

    #[track_caller]
    fn wins(slot: impl Into<Option<OnceSlot>>, phase: impl Into<Option<i64>>, in_phase: i64) {
        let won = OnceSlot { phase: Phase(in_phase), winner: NEW, winner_phase: Phase(in_phase) };
        assert_eq!(claim(slot.into(), phase.into().map(Phase), NEW), Claimed::Won(won));
    }

    #[track_caller]
    fn is_suppressed(slot: OnceSlot, phase: impl Into<Option<i64>>) {
        assert_eq!(claim(Some(slot), phase.into().map(Phase), NEW), Claimed::Suppressed(OLD));
    }

    #[test]
    fn the_first_claim_makes_the_slot() {
        wins(None, None, 0);
        wins(None, 7, 7);
    }

    #[test]
    fn a_phase_has_one_winner() {
        is_suppressed(slot(3, 3), None);
        is_suppressed(slot(3, 3), 3);
    }

    #[test]
    fn a_higher_phase_opens_itself_and_a_lower_one_is_stale() {
        wins(slot(3, 3), 4, 4);
        wins(slot(3, 3), 900, 900);
        is_suppressed(slot(3, 3), 2);
        wins(slot(3, 1), 4, 4);
        is_suppressed(slot(3, 1), 2);
    }

    #[test]
    fn a_reset_opens_the_next_phase_once() {
        assert_eq!(slot(3, 3).reset(), slot(4, 3));
        assert_eq!(slot(4, 3).reset(), slot(4, 3));
        wins(slot(4, 3), None, 4);
        wins(slot(4, 3), 4, 4);
        is_suppressed(slot(4, 3), 3);
    }

    #[test]
    fn a_slot_at_the_last_phase_can_still_be_reset() {
        assert_eq!(Phase::new(PHASE_MAX + 1), Err(BadPhase));
        assert_eq!(Phase::new(-1), Err(BadPhase));
        wins(slot(PHASE_MAX, PHASE_MAX).reset(), None, PHASE_MAX + 1);
    }
}
