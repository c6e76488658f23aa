//! The single writer: a thread that turns waiting writes into one transaction after the other.
//!
//! Callers push writes and wait for their answers. The thread takes waiting writes, by class and with a bound for each.
//! It runs each so that it can be undone alone, commits once, and only then answers all of them. While the disk syncs,
//! the next batch forms; if nothing waits, a write runs at once. After the disk failed during a commit, the thread
//! refuses all writes. Called by every method of the store that writes.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::thread::JoinHandle;

use everhook_core::time::Timestamp;
use everhook_store::cache::EndpointCache;
use everhook_store::error::StoreError;
use everhook_store::ids::Ids;
use everhook_store::store::Op;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tracing::{error, warn};

use crate::checkpoint::Checkpoints;
use crate::clock::StoreClock;
use crate::connection::Connection;
use crate::error::{Aborted, Fault, Refusal, commit_failed};
use crate::identity::Identity;
use crate::open;
use crate::session;

/// The most queued writes; further callers wait.
const WRITES_MAX: usize = 4096;
/// The most writes of one class in one transaction.
const WRITES_PER_CLASS_MAX: usize = 512;
/// The most rows of one class in one transaction, unless a single write has more. Keeps transactions short.
const ROWS_PER_CLASS_MAX: usize = 1000;

/// The order of writes in a transaction. Each class has a share of every transaction, so that none starves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteClass {
    /// Accepts messages or jobs: a client waits for it.
    Append,
    /// Ends attempts: slots wait for it.
    Settle,
    /// All other requests.
    Change,
    /// Background work.
    Maintenance,
}

const CLASSES: usize = 4;

/// The context of a write.
pub(crate) struct Tx<'c> {
    pub(crate) conn: &'c Connection,
    /// The store's time, read inside the transaction.
    pub(crate) now: Timestamp,
    pub(crate) cache: &'c EndpointCache,
    pub(crate) ids: &'c Ids,
}

/// The description of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteAsk {
    /// The operation's name, for errors.
    pub(crate) op: Op,
    pub(crate) class: WriteClass,
    /// The approximate number of written rows.
    pub(crate) rows: usize,
}

/// A handle on the writer's thread.
pub(crate) struct Writer {
    queue: Arc<WriteQueue>,
    capacity: Arc<Semaphore>,
    /// The reason why all writes are refused until the store is opened again.
    refusal: Arc<OnceLock<Refusal>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    /// Starts the thread on a connection of its own.
    pub(crate) fn start(
        conn: Connection,
        ids: Arc<Ids>,
        clock: Arc<StoreClock>,
        checkpoints: Option<Checkpoints>,
        identity: Option<Identity>,
    ) -> std::io::Result<Writer> {
        let queue = Arc::new(WriteQueue::default());
        let (cache, refusal) = (EndpointCache::default(), Arc::default());
        let thread = Thread { conn, ids, clock, cache, checkpoints, identity, refusal: Arc::clone(&refusal) };
        let feed = Arc::clone(&queue);
        let thread = std::thread::Builder::new().name("everhook-writer".into()).spawn(move || thread.run(&feed))?;
        let (capacity, thread) = (Arc::new(Semaphore::new(WRITES_MAX)), Mutex::new(Some(thread)));
        Ok(Writer { queue, capacity, refusal, thread })
    }

    /// Returns the reason why all writes are refused until the store is opened again, if there is one.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        self.refusal.get().copied()
    }

    /// Runs `work` in the next transaction; returns after its commit.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        ask: WriteAsk,
        work: impl FnOnce(&Tx<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let closed = || Refusal::Closed.into_store_error(ask.op);
        let permit = Arc::clone(&self.capacity).acquire_owned().await.map_err(|_| closed())?;
        let (reply, answer) = oneshot::channel();
        let write = Write { op: ask.op, work: Some(work), done: None, reply, _permit: permit };
        if !self.queue.push(ask, Box::new(write)) {
            return Err(closed());
        }
        answer.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Finishes waiting writes and ends the thread. Repeatable.
    pub(crate) fn close(&self) {
        self.queue.close();
        let thread = self.thread.lock().expect("nothing panics while it holds this lock").take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            error!("the writer's thread panicked");
        }
    }
}

/// A write with any type of answer.
trait PendingWrite: Send {
    /// Whether the caller still waits for the answer.
    fn is_wanted(&self) -> bool;
    fn run(&mut self, tx: &Tx<'_>) -> WriteRan;
    /// Sends the answer: the result of the work, or the reason why the transaction failed.
    fn answer(self: Box<Self>, aborted: Option<&Aborted>);
}

/// The result of a write, for its transaction.
enum WriteRan {
    /// Its changes stay.
    Well,
    /// Its changes must be undone.
    Badly,
    /// SQLite has undone the whole transaction, for example because the disk is full.
    Fatally(rusqlite::Error),
}

struct Write<T, W> {
    op: Op,
    work: Option<W>,
    done: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
    _permit: OwnedSemaphorePermit,
}

impl<T, W> PendingWrite for Write<T, W>
where
    T: Send,
    W: FnOnce(&Tx<'_>) -> Result<T, Fault> + Send,
{
    fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }

    fn run(&mut self, tx: &Tx<'_>) -> WriteRan {
        let Some(work) = self.work.take() else { return WriteRan::Badly };
        // A panic of one write must not abort the others of its transaction.
        let done = match catch_unwind(AssertUnwindSafe(|| work(tx))) {
            Ok(Err(Fault::Sql(error))) if tx.conn.is_autocommit() => return WriteRan::Fatally(error),
            Ok(done) => done.map_err(|fault| fault.into_store_error(self.op)),
            Err(_) => Err(Refusal::Panicked.into_store_error(self.op)),
        };
        if self.done.insert(done).is_ok() { WriteRan::Well } else { WriteRan::Badly }
    }

    fn answer(self: Box<Self>, aborted: Option<&Aborted>) {
        let Write { op, done, reply, .. } = *self;
        // If the transaction failed, the result is dropped, which releases every slot that it had reserved.
        let answer = match (aborted, done) {
            (Some(aborted), _) => Err(aborted.to_store_error(op)),
            (None, Some(done)) => done,
            (None, None) => Err(Refusal::Closed.into_store_error(op)),
        };
        // The caller may be gone; the transaction is committed nevertheless.
        let _ = reply.send(answer);
    }
}

/// Waiting writes, by class.
#[derive(Default)]
struct WriteQueue {
    state: Mutex<WaitingWrites>,
    pushed: Condvar,
}

#[derive(Default)]
struct WaitingWrites {
    classes: [VecDeque<(usize, Box<dyn PendingWrite>)>; CLASSES],
    idle: bool,
    closed: bool,
}

impl WriteQueue {
    /// Queues a write; returns false if the store is closed.
    fn push(&self, ask: WriteAsk, write: Box<dyn PendingWrite>) -> bool {
        let mut state = self.lock();
        if state.closed {
            return false;
        }
        state.classes[ask.class as usize].push_back((ask.rows, write));
        if state.idle {
            self.pushed.notify_one();
        }
        true
    }

    /// Returns the writes of the next transaction; empty once the store is closed and the queue is empty.
    fn take(&self) -> Vec<Box<dyn PendingWrite>> {
        let mut state = self.lock();
        while state.classes.iter().all(VecDeque::is_empty) {
            if state.closed {
                return Vec::new();
            }
            state.idle = true;
            state = self.pushed.wait(state).expect("nothing panics while it holds this lock");
            state.idle = false;
        }
        let mut writes = Vec::new();
        for class in &mut state.classes {
            let mut rows = 0;
            let mut fits = |(weight, _): &(usize, Box<dyn PendingWrite>)| {
                let fits = rows == 0 || rows + weight <= ROWS_PER_CLASS_MAX;
                rows += weight;
                fits
            };
            let count = class.iter().take(WRITES_PER_CLASS_MAX).take_while(|write| fits(write)).count();
            writes.extend(class.drain(..count).map(|(_, write)| write));
        }
        writes
    }

    fn close(&self) {
        self.lock().closed = true;
        self.pushed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, WaitingWrites> {
        self.state.lock().expect("nothing panics while it holds this lock")
    }
}

/// The state of the thread.
struct Thread {
    conn: Connection,
    ids: Arc<Ids>,
    clock: Arc<StoreClock>,
    cache: EndpointCache,
    checkpoints: Option<Checkpoints>,
    identity: Option<Identity>,
    refusal: Arc<OnceLock<Refusal>>,
}

impl Thread {
    fn run(mut self, queue: &WriteQueue) {
        // If the thread panics, callers must not wait forever.
        let _closing = CloseOnDrop(queue);
        loop {
            let mut writes = queue.take();
            if writes.is_empty() {
                break;
            }
            writes.retain(|write| write.is_wanted());
            let aborted = self.transact(&mut writes).err();
            if aborted.is_some() {
                // The cache may contain rows that were never committed.
                self.cache = EndpointCache::default();
            }
            for write in writes {
                write.answer(aborted.as_ref());
            }
            self.checkpoint();
        }
        if let Some(checkpoints) = self.checkpoints.take() {
            checkpoints.finish(self.refusal.get().is_none().then_some(&self.conn));
        }
    }

    /// Runs the writes in one transaction and commits it.
    fn transact(&mut self, writes: &mut [Box<dyn PendingWrite>]) -> Result<(), Aborted> {
        if let Some(refusal) = self.refusal.get() {
            return Err(Aborted::Refused(*refusal));
        }
        if writes.is_empty() {
            return Ok(());
        }
        self.follow_wall_clock()?;
        self.commit(|it| writes.iter_mut().enumerate().try_for_each(|(n, write)| it.run_alone(write.as_mut(), n == 0)))
    }

    /// Follows a forward step of the wall clock, and moves every lease and deadline along. A transaction of its own:
    /// before it all times are in the old time, after it in the new one.
    fn follow_wall_clock(&mut self) -> Result<(), Aborted> {
        let Some(step) = self.clock.step() else { return Ok(()) };
        self.commit(|it| session::move_leases(&it.conn, step))?;
        self.clock.advance(step);
        warn!("the wall clock went forward by {} s: leases and deadlines moved along", step.as_secs_f32());
        Ok(())
    }

    fn commit(&mut self, run: impl FnOnce(&mut Thread) -> Result<(), rusqlite::Error>) -> Result<(), Aborted> {
        let rolled_back = |error| Aborted::RolledBack(Arc::new(error));
        self.execute("begin immediate").map_err(rolled_back)?;
        let aborted = match run(self) {
            Err(error) => rolled_back(error),
            Ok(()) => match self.execute("commit") {
                Ok(()) => return self.check_files(),
                Err(error) => commit_failed(error),
            },
        };
        if !self.conn.is_autocommit()
            && let Err(error) = self.execute("rollback")
        {
            warn!(error = &error as &dyn std::error::Error, "could not roll back: {error}");
        }
        if let Aborted::InDoubt(cause) = &aborted {
            self.give_up(cause, "a commit");
        }
        Err(aborted)
    }

    /// Refuses to acknowledge writes to a file that has lost its name.
    fn check_files(&mut self) -> Result<(), Aborted> {
        let Some(lost) = self.identity.as_ref().and_then(Identity::lost) else { return Ok(()) };
        let (lost, pid) = (lost.display(), std::process::id());
        error!(
            "{lost} was deleted or replaced while it is in use: nothing is accepted until a restart. Until this process ends, the \
             open file can be copied from /proc/{pid}/fd"
        );
        self.refuse(Refusal::FileLost);
        Err(Aborted::Refused(Refusal::FileLost))
    }

    /// Runs one write so that its failure undoes only itself. If it is the first, the transaction can be begun again
    /// instead of rolling back to a savepoint, for which SQLite would copy every page that the write changes.
    fn run_alone(&mut self, write: &mut dyn PendingWrite, is_first: bool) -> Result<(), rusqlite::Error> {
        if !is_first {
            self.execute("savepoint job")?;
        }
        let tx = Tx { conn: &self.conn, now: self.clock.now(), cache: &self.cache, ids: &self.ids };
        match write.run(&tx) {
            WriteRan::Well => {}
            WriteRan::Fatally(error) => return Err(error),
            WriteRan::Badly => {
                // The cache may contain rows that the write has just undone.
                self.cache = EndpointCache::default();
                if is_first {
                    self.execute("rollback")?;
                    return self.execute("begin immediate");
                }
                self.execute("rollback to job")?;
            }
        }
        if is_first { Ok(()) } else { self.execute("release job") }
    }

    fn execute(&self, sql: &'static str) -> Result<(), rusqlite::Error> {
        self.conn.prepare_cached(sql)?.execute([]).map(drop)
    }

    fn checkpoint(&mut self) {
        if let Some(checkpoints) = &mut self.checkpoints
            && self.refusal.get().is_none()
            && let Err(error) = checkpoints.after_commit(&self.conn)
        {
            self.give_up(&error, "a checkpoint");
        }
    }

    /// Stops using the file: memory and disk may differ, and only a restart finds out.
    fn give_up(&mut self, cause: &rusqlite::Error, during: &'static str) {
        error!(
            error = cause as &dyn std::error::Error,
            "the disk failed during {during}; nothing is written until restart"
        );
        self.refuse(Refusal::DiskFailed);
    }

    fn refuse(&self, refusal: Refusal) {
        let _ = self.refusal.set(refusal);
        if let Err(error) = open::keep_log(&self.conn) {
            warn!(error = &error as &dyn std::error::Error, "closing the file may still touch the log: {error}");
        }
    }
}

struct CloseOnDrop<'q>(&'q WriteQueue);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.closed = true;
        for class in &mut state.classes {
            class.clear();
        }
    }
}

#[cfg(test)]
mod tests;
