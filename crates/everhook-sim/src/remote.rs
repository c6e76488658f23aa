//! Remote workers: processes of their own that take jobs over the API of any node, heartbeat while they run them, and now and then die.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use everhook_core::id::JobId;
use everhook_core::job::LeaseProof;
use everhook_core::job::report::{Note, Report};
use everhook_engine::jobs::{self, HeldJob, WorkerRefused};
use everhook_store::job::LeasedJob;
use everhook_store::worker::{Takes, WorkerRecord};

use crate::client::ENVIRONMENT;
use crate::job::{Ending, Run, Working, name, remote};
use crate::node::LEASE;
use crate::producer::{ask, rest};
use crate::world::{Nodes, Shared};

/// Jobs that a worker takes at once: the time of one that waits for another would pass, too.
const TAKEN: usize = 1;
/// How long a node may keep a worker waiting that has nothing to do.
const WAIT: Duration = Duration::from_secs(2);

/// One worker, in one life after the other.
pub(crate) async fn work(shared: Arc<Shared>, nodes: Nodes, number: usize) -> Infallible {
    loop {
        let node = nodes.pick(&shared.rng);
        let takes = Takes { environment: ENVIRONMENT, queues: vec![name(remote())], kinds: Vec::new() };
        match ask(&node, node.engine.open_worker(format!("worker {number}"), takes, LEASE)).await {
            None => rest(&shared).await,
            Some(record) => Worker { shared: Arc::clone(&shared), nodes: nodes.clone(), record }.live().await,
        }
    }
}

/// One life of a worker.
struct Worker {
    shared: Arc<Shared>,
    nodes: Nodes,
    record: WorkerRecord,
}

/// What came of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It was ended, or someone else has it.
    Over,
    /// The worker died with it.
    Died,
}

impl Worker {
    async fn live(&self) {
        loop {
            let node = self.nodes.pick(&self.shared.rng);
            let taken = ask(&node, node.engine.lease_for(&self.record, TAKEN, WAIT, Some(&[]))).await;
            self.shared.trace.event(format_args!("{} takes {:?}", self.record.session.node, taken.as_ref().map(count)));
            let jobs = match taken {
                Some(Ok(jobs)) => jobs,
                Some(Err(WorkerRefused::Closed)) => return,
                Some(Err(WorkerRefused::Busy)) | None => {
                    rest(&self.shared).await;
                    continue;
                }
            };
            for (at, leased) in jobs.iter().enumerate() {
                if self.run(leased, &jobs[at..]).await == Outcome::Died {
                    self.shared.trace.event(format_args!("{} dies", self.record.session.node));
                    return tokio::time::sleep(self.shared.rng.between(Duration::ZERO, LEASE * 2)).await;
                }
            }
        }
    }

    /// Runs a job, while what is held is heartbeated.
    async fn run(&self, leased: &LeasedJob, held: &[LeasedJob]) -> Outcome {
        let Some(job) = &leased.job else { return Outcome::Over };
        let (id, epoch) = (job.id, leased.task.epoch);
        let at = self.shared.trace.elapsed();
        let run = self.shared.begin_run(Run { job: id, body: job.payload.clone(), at, ended: None, said: None });
        self.shared.trace.event(format_args!("{} runs {id}: {run}", self.record.session.node));
        let working = Working { shared: &self.shared, job, attempt: leased.task.tries + 1, run };
        if working.is_poison() || (self.shared.faults && self.shared.rng.once_in(40)) {
            return Outcome::Died;
        }
        let mut cancelled = false;
        let ending = {
            let mut pause = std::pin::pin!(working.pause());
            loop {
                tokio::select! {
                    biased;
                    () = &mut pause => {
                        match working.choose(cancelled) {
                            // Until it is someone else's.
                            Ending::Hang => pause.set(working.hang()),
                            ending => break ending,
                        }
                    }
                    () = tokio::time::sleep(LEASE / 4) => match self.heartbeat(id, held).await {
                        Some(is_cancelled) => cancelled |= is_cancelled,
                        None => return Outcome::Over,
                    },
                }
            }
        };
        self.end(id, LeaseProof { session: self.record.session.id, epoch }, run, ending).await;
        Outcome::Over
    }

    /// Whether the job is cancelled; none if it is not this worker's any more.
    async fn heartbeat(&self, id: JobId, held: &[LeasedJob]) -> Option<bool> {
        let held_job = |leased: &LeasedJob| HeldJob { id: JobId(leased.task.key.subject), epoch: leased.task.epoch };
        let held = held.iter().map(held_job).collect::<Vec<_>>();
        let node = self.nodes.pick(&self.shared.rng);
        match ask(&node, node.engine.heartbeat(self.record.session.id, Some(&held))).await {
            Some(Err(_)) => None,
            Some(Ok(beat)) if beat.lost.contains(&id) => None,
            Some(Ok(beat)) => Some(beat.cancelled.contains(&id)),
            None => Some(false),
        }
    }

    /// Says how a job ended, again and again until it is heard.
    async fn end(&self, id: JobId, by: LeaseProof, run: usize, ending: Ending) {
        let (report, result) = match ending {
            Ending::Complete => (Report::Completed, Some(Bytes::from(format!("{{\"run\":{run}}}")))),
            Ending::Snooze => (Report::Snoozed { wait: Duration::from_secs(2) }, None),
            Ending::GiveUp => (Report::Cancelled, None),
            Ending::Fail | Ending::Panic | Ending::Hang => (Report::Failed { retry_after: None }, None),
        };
        self.shared.end_run(run, report.classify().0);
        // Whoever says no more of a job than that it does not hold it gives it back as if it had never begun.
        loop {
            let log = format!("run {run}");
            let ending = jobs::Ending { report, note: Note::new("", [log.as_str()]), result: result.clone() };
            let node = self.nodes.pick(&self.shared.rng);
            let told = ask(&node, node.engine.end_job(ENVIRONMENT, id, by, ending)).await;
            self.shared.trace.event(format_args!("{} ends run {run}: {told:?}", self.record.session.node));
            if told.is_some() {
                return;
            }
            rest(&self.shared).await;
        }
    }
}

fn count(taken: &Result<Vec<LeasedJob>, WorkerRefused>) -> Option<usize> {
    taken.as_ref().ok().map(Vec::len)
}
