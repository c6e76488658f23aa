//! The node's sessions: opened, renewed, retired, closed.
//!
//! One renewal keeps alive everything a session holds. The keeper is the only one that opens or closes sessions; others ask
//! for the current [`Session`] and hold it while they hold tasks of it. On doubt (a lost reply to a commit) a session is
//! *retired*: it takes no new work, is renewed until nothing of it is held any more, and is closed then, so that whatever it
//! owns without knowing is reclaimed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everhook_core::id::SessionId;
use everhook_core::role::Role;
use everhook_store::error::StoreError;
use everhook_store::ids::Ids;
use everhook_store::lease::{NewSession, Renewed};
use everhook_store::store::Store;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::clock::Clock;

/// One session of this node.
#[derive(Debug)]
pub struct Session {
    /// Its id, never reused.
    pub id: SessionId,
    /// When the last successful renewal was *sent*, in micros of the node's monotonic clock: the lease counts from there.
    renewed_us: AtomicU64,
    retired: AtomicBool,
    /// Fires when the store says that someone closed it: sends under it are to be aborted.
    closed: CancellationToken,
    /// The keeper's.
    nudge: Arc<Notify>,
}

impl Session {
    /// Waits until the session was closed by someone else.
    pub async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Whether the session was closed by someone else.
    pub fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    /// Takes no new work any more, because of `why`: it owns, or may own, what nobody here will settle.
    pub(crate) fn retire(&self, why: &str) {
        if !self.retired.swap(true, Ordering::AcqRel) {
            warn!(session.id = %self.id, "retired session {}: {why}", self.id);
            self.nudge.notify_one();
        }
    }

    fn renewed(&self) -> Duration {
        Duration::from_micros(self.renewed_us.load(Ordering::Acquire))
    }
}

/// Names this node in the session table.
#[derive(Clone, Debug)]
pub struct NodeName {
    /// Host and process, for people.
    pub node: String,
    /// The binary's version.
    pub version: String,
}

/// Opens, renews, retires and closes this node's sessions.
pub struct Sessions {
    store: Arc<dyn Store>,
    ids: Arc<Ids>,
    clock: Arc<Clock>,
    name: NodeName,
    role: Role,
    lease: Duration,
    state: Mutex<SessionState>,
    /// Wakes the keeper before its time: a session was retired.
    nudge: Arc<Notify>,
}

#[derive(Debug, Default)]
struct SessionState {
    current: Option<Arc<Session>>,
    retired: Vec<Arc<Session>>,
    /// Since when this node has renewed without a gap; others may be closed only after one whole lease of it.
    steady_since: Option<Duration>,
}

impl Sessions {
    /// A keeper without a session; `open` comes next.
    pub fn new(
        store: Arc<dyn Store>,
        ids: Arc<Ids>,
        clock: Arc<Clock>,
        name: NodeName,
        role: Role,
        lease: Duration,
    ) -> Sessions {
        Sessions { store, ids, clock, name, role, lease, state: Mutex::default(), nudge: Arc::default() }
    }

    /// The session under which new work may be taken and sent now: neither retired nor past its self-check.
    pub fn current(&self) -> Option<Arc<Session>> {
        let current = self.lock().current.clone()?;
        (!current.retired.load(Ordering::Acquire) && self.may_send(&current)).then_some(current)
    }

    /// The self-check before each send: less than the lease, less a margin, since the last renewal was sent.
    pub fn may_send(&self, session: &Session) -> bool {
        !session.is_closed() && self.clock.elapsed().saturating_sub(session.renewed()) < self.lease - self.lease / 8
    }

    /// How long this node has renewed without a gap; none before that is one lease. A node that is not steady closes no sessions
    /// of others.
    pub fn steady(&self) -> Option<Duration> {
        self.current()?;
        let steady = self.clock.elapsed().saturating_sub(self.lock().steady_since?);
        (steady >= self.lease).then_some(steady)
    }

    /// Takes no new work under `session` any more: a commit under it is in doubt.
    pub fn retire(&self, session: &Session) {
        session.retire("a write under it is in doubt");
    }

    /// Keeps the sessions until `stop`; opens the first one when it can.
    pub async fn run(&self, stop: CancellationToken) {
        let renew_every = self.lease / 4;
        // After a failure there is less time left: ask again sooner.
        let retry_every = self.lease / 16;
        loop {
            let steady = self.step().await;
            let pause = if steady { renew_every } else { retry_every };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.nudge.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Renews every session, replaces the current one if it is retired or closed, closes retired ones that hold nothing.
    /// Says whether all went well.
    pub async fn step(&self) -> bool {
        let (current, retired) = {
            let state = self.lock();
            (state.current.clone(), state.retired.clone())
        };
        let mut well = true;
        for session in current.iter().chain(&retired).filter(|session| !session.is_closed()) {
            well &= self.renew(session).await;
        }
        let usable = |session: &Arc<Session>| !session.is_closed() && !session.retired.load(Ordering::Acquire);
        if !current.as_ref().is_some_and(usable) {
            well &= self.open().await;
        }
        drop((current, retired));
        self.close_idle().await && well
    }

    /// Closes every session; what it still holds is reclaimed by others, or by this node when it starts again.
    pub async fn close_all(&self) {
        let tenures = {
            let mut state = self.lock();
            let current = state.current.take();
            state.retired.drain(..).chain(current).collect::<Vec<_>>()
        };
        for session in tenures {
            if let Err(error) = self.store.close_session(session.id).await {
                warn!(session.id = %session.id, error = &error as &dyn std::error::Error, "could not close session");
            }
        }
    }

    async fn renew(&self, session: &Session) -> bool {
        let before = self.clock.elapsed();
        match self.store.renew_session(session.id).await {
            Ok(renewed @ (Renewed::Open(now) | Renewed::Moved(now))) => {
                self.clock.sync(now, before);
                self.note_renewal(session, before);
                if matches!(renewed, Renewed::Moved(_)) {
                    // Tasks that were settled before may be its own again: they are found when it is closed.
                    session.retire("another server took over the database, perhaps without the last writes");
                }
                true
            }
            Ok(Renewed::Closed) => {
                error!(session.id = %session.id, "session {} was closed by another node: aborting its sends", session.id);
                session.closed.cancel();
                false
            }
            Err(error) => {
                warn!(session.id = %session.id, error = &error as &dyn std::error::Error, "could not renew session");
                false
            }
        }
    }

    fn note_renewal(&self, session: &Session, before: Duration) {
        let gap = before.saturating_sub(session.renewed()) > self.lease;
        session.renewed_us.store(u64::try_from(before.as_micros()).unwrap_or(u64::MAX), Ordering::Release);
        if gap {
            self.lock().steady_since = Some(before);
        }
    }

    async fn open(&self) -> bool {
        let before = self.clock.elapsed();
        let id = SessionId(self.ids.next(self.clock.now()));
        let NodeName { node, version } = self.name.clone();
        let session = NewSession { id, node, role: self.role, version, lease: self.lease, takes: None };
        match self.store.open_session(session).await {
            Ok(now) => {
                self.clock.sync(now, before);
                self.install(id, before);
                info!(session.id = %id, "opened session {id}");
                true
            }
            Err(error) => {
                // If it was written all the same, nobody renews it, and it is closed as expired.
                warn!(error = &error as &dyn std::error::Error, "could not open a session");
                false
            }
        }
    }

    fn install(&self, id: SessionId, before: Duration) {
        let session = Arc::new(Session {
            id,
            renewed_us: AtomicU64::new(u64::try_from(before.as_micros()).unwrap_or(u64::MAX)),
            retired: AtomicBool::new(false),
            closed: CancellationToken::new(),
            nudge: Arc::clone(&self.nudge),
        });
        let mut state = self.lock();
        state.steady_since.get_or_insert(before);
        if let Some(old) = state.current.replace(session) {
            // A gap, if it was taken from us, or if its last renewal was sent too long ago: that one may have waited for a
            // database that failed over, as everybody else's did, while this session was opened in no time.
            if old.is_closed() || before.saturating_sub(old.renewed()) > self.lease {
                state.steady_since = Some(before);
            }
            if !old.is_closed() {
                state.retired.push(old);
            }
        }
    }

    /// Closes retired sessions of which nothing is held: only this list still refers to them.
    async fn close_idle(&self) -> bool {
        let idle = {
            let mut state = self.lock();
            state.retired.extract_if(.., |session| Arc::strong_count(session) == 1).collect::<Vec<_>>()
        };
        let mut well = true;
        for session in idle {
            if !session.is_closed() {
                well &= self.close_retired(session).await;
            }
        }
        well
    }

    async fn close_retired(&self, session: Arc<Session>) -> bool {
        let closed: Result<(), StoreError> = self.store.close_session(session.id).await;
        if let Err(error) = closed {
            warn!(session.id = %session.id, error = &error as &dyn std::error::Error, "could not close session");
            self.lock().retired.push(session);
            return false;
        }
        info!(session.id = %session.id, "closed retired session {}", session.id);
        true
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, SessionState> {
        self.state.lock().expect("nothing panics while it holds this lock")
    }
}
