//! Random operations on a store, with their ids.

use std::collections::BTreeSet;
use std::time::Duration;

use everhook_core::id::{ApplicationId, AttemptId, EndpointId, MessageId, SessionId};
use everhook_core::lifecycle::NextRow;
use everhook_core::time::Timestamp;
use everhook_store::ids::Ids;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::{collection, option};

use crate::conformance::fixture::{HOUR, PLENTY};

/// Two environments with equal ids.
pub(super) const ENVIRONMENTS: usize = 2;
/// Enough for one open, one expired, one closed and one unknown session.
pub(super) const SESSIONS: usize = 4;
/// The second endpoint listens to a channel, the other two to all messages.
pub(super) const ENDPOINTS: usize = 3;

/// An operation, with numbers that stand for ids.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Open { session: usize, lasting: bool },
    Renew { session: usize },
    Close { session: usize },
    CloseExpired,
    Append { fast: Option<(usize, usize)>, drafts: Vec<Draft> },
    Lease { session: usize, per_lane: usize, free_by_lane: Vec<(usize, usize)> },
    Settle(Vec<Ending>),
    SayAgain { which: usize },
    Reclaim { session: usize },
    Switch { place: Place, on: bool },
    Delete { place: Place },
    Redrive { place: Place },
    Resend { place: Place, message: usize },
    Expunge { environment: usize, message: usize },
    ResetOnce { environment: usize, key: u8 },
}

#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) environment: usize,
    /// The key and the body of a request.
    pub(super) key: Option<(u8, u8)>,
    pub(super) event_id: Option<u8>,
    pub(super) on_channel: bool,
    /// The key of a once-slot and a phase.
    pub(super) once: Option<(u8, Option<u8>)>,
    /// Whether it is delivered in an hour instead of now.
    pub(super) later: bool,
}

/// An endpoint of an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) environment: usize,
    pub(super) endpoint: usize,
}

/// The settlement of an earlier lease, counted from the last one.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    pub(super) lease: usize,
    pub(super) twist: Twist,
    pub(super) row: NextRow,
    pub(super) logged: bool,
    pub(super) hold: Option<Duration>,
    pub(super) disable: bool,
}

/// The defect of a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Twist {
    Nothing,
    Session,
    Epoch,
}

/// Generates any operation, preferring those that move tasks.
pub(super) fn any_op() -> impl Strategy<Value = Op> {
    let session = || 0..SESSIONS;
    let place = || (0..ENVIRONMENTS, 0..ENDPOINTS).prop_map(|(environment, endpoint)| Place { environment, endpoint });
    let fast = option::of((session(), 0..4_usize));
    let free_by_lane = collection::vec((0..ENDPOINTS, 0..3_usize), 0..3);
    prop_oneof![
        3 => (session(), any::<bool>()).prop_map(|(session, lasting)| Op::Open { session, lasting }),
        1 => session().prop_map(|session| Op::Renew { session }),
        1 => session().prop_map(|session| Op::Close { session }),
        1 => Just(Op::CloseExpired),
        8 => (fast, collection::vec(any_draft(), 1..4)).prop_map(|(fast, drafts)| Op::Append { fast, drafts }),
        8 => (session(), prop_oneof![1..4_usize, Just(PLENTY)], free_by_lane)
            .prop_map(|(session, per_lane, free_by_lane)| Op::Lease { session, per_lane, free_by_lane: dedup(free_by_lane) }),
        8 => collection::vec(any_ending(), 1..5).prop_map(Op::Settle),
        1 => (0..5_usize).prop_map(|which| Op::SayAgain { which }),
        2 => session().prop_map(|session| Op::Reclaim { session }),
        2 => (place(), any::<bool>()).prop_map(|(place, on)| Op::Switch { place, on }),
        1 => place().prop_map(|place| Op::Delete { place }),
        1 => place().prop_map(|place| Op::Redrive { place }),
        1 => (place(), 0..8_usize).prop_map(|(place, message)| Op::Resend { place, message }),
        1 => (0..ENVIRONMENTS, 0..8_usize).prop_map(|(environment, message)| Op::Expunge { environment, message }),
        1 => (0..ENVIRONMENTS, 0..2_u8).prop_map(|(environment, key)| Op::ResetOnce { environment, key }),
    ]
}

fn any_draft() -> impl Strategy<Value = Draft> {
    let key = option::weighted(0.3, (0..3_u8, 0..2_u8));
    let once = option::weighted(0.3, (0..2_u8, option::of(0..3_u8)));
    let later = prop_oneof![5 => Just(false), 1 => Just(true)];
    (0..ENVIRONMENTS, key, option::weighted(0.3, 0..3_u8), any::<bool>(), once, later).prop_map(
        |(environment, key, event_id, on_channel, once, later)| Draft {
            environment,
            key,
            event_id,
            on_channel,
            once,
            later,
        },
    )
}

fn any_ending() -> impl Strategy<Value = Ending> {
    let twist = prop_oneof![8 => Just(Twist::Nothing), 1 => Just(Twist::Session), 1 => Just(Twist::Epoch)];
    let pending = |due_in| NextRow::Pending { due_in };
    let row = prop_oneof![
        3 => Just((NextRow::Gone, true)),
        3 => Just((pending(Duration::ZERO), true)),
        1 => Just((pending(Duration::ZERO), false)),
        2 => Just((pending(HOUR), true)),
        2 => Just((NextRow::Dead, true)),
    ];
    let hold = prop_oneof![8 => Just(None), 1 => Just(Some(Duration::ZERO)), 1 => Just(Some(HOUR))];
    let disable = prop_oneof![12 => Just(false), 1 => Just(true)];
    (0..6_usize, twist, row, hold, disable).prop_map(|(lease, twist, (row, logged), hold, disable)| Ending {
        lease,
        twist,
        row,
        logged,
        hold,
        disable,
    })
}

/// Keeps one capacity per lane.
fn dedup(mut free_by_lane: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
    free_by_lane.sort();
    free_by_lane.dedup_by_key(|(lane, _)| *lane);
    free_by_lane
}

/// An operation with its ids, the same for both stores.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Do(Op),
    Append {
        fast: Option<(usize, usize)>,
        drafts: Vec<(usize, Draft)>,
    },
    Settle(Vec<(AttemptId, Ending)>),
    /// Reads the states and attempts of all messages.
    Look,
    /// Does nothing, because the operation makes no sense here.
    Skip,
}

/// The ids of one run, and their use so far.
#[derive(Debug)]
pub(super) struct Script {
    ids: Ids,
    now: Timestamp,
    pub(super) application: ApplicationId,
    pub(super) endpoints: Vec<EndpointId>,
    pub(super) sessions: Vec<SessionId>,
    pub(super) messages: Vec<MessageId>,
    resent: BTreeSet<(Place, usize)>,
    deleted: BTreeSet<Place>,
}

impl Script {
    /// Creates the ids of one run at the real store's time.
    pub(super) fn new(now: Timestamp) -> Script {
        let ids = Ids::from_system();
        let application = ApplicationId(ids.next(now));
        let endpoints = (0..ENDPOINTS).map(|_| EndpointId(ids.next(now))).collect();
        let sessions = (0..SESSIONS).map(|_| SessionId(ids.next(now))).collect();
        let (resent, deleted) = (BTreeSet::new(), BTreeSet::new());
        Script { ids, now, application, endpoints, sessions, messages: Vec::new(), resent, deleted }
    }

    /// Adds the ids to an operation.
    pub(super) fn step(&mut self, op: &Op) -> Step {
        match op {
            Op::Append { fast, drafts } => {
                let drafts = drafts.iter().map(|draft| (self.new_message(), draft.clone())).collect();
                Step::Append { fast: *fast, drafts }
            }
            Op::Settle(endings) => {
                let id = || AttemptId(self.ids.next(self.now));
                Step::Settle(endings.iter().map(|ending| (id(), ending.clone())).collect())
            }
            // A second manual task of a delivery could not be distinguished from the first.
            Op::Resend { place, message } if !self.resent.insert((*place, *message)) => Step::Skip,
            Op::Redrive { place } if self.deleted.contains(place) => Step::Skip,
            Op::Delete { place } => {
                self.deleted.insert(*place);
                Step::Do(op.clone())
            }
            _ => Step::Do(op.clone()),
        }
    }

    /// The steps that show the whole state at the end.
    pub(super) fn closing_steps() -> Vec<Step> {
        let lease = || Step::Do(Op::Lease { session: 0, per_lane: PLENTY, free_by_lane: Vec::new() });
        let close = (0..SESSIONS).map(|session| Step::Do(Op::Close { session }));
        let reclaim = Step::Do(Op::Reclaim { session: 0 });
        [Step::Look].into_iter().chain(close).chain([reclaim, lease(), lease(), Step::Look]).collect()
    }

    fn new_message(&mut self) -> usize {
        self.messages.push(MessageId(self.ids.next(self.now)));
        self.messages.len() - 1
    }
}
