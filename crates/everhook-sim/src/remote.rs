//! Simulated remote workers. They lease jobs from any node over its API, send heartbeats while they run them, and
//! sometimes crash.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use everhook_core::id::JobId;
use everhook_core::job::LeaseProof;
use everhook_core::job::report::{Note, Report};
use everhook_engine::remote::{self, HeldJob, WorkerRefused};
use everhook_store::lease::Leased;
use everhook_store::worker::{Takes, WorkerRecord};

use crate::client::ENVIRONMENT;
use crate::job::{Ending, Run, Working, name, remote};
use crate::node::LEASE;
use crate::producer::{ask, rest};
use crate::world::{Nodes, Shared};

/// Jobs that a worker leases at a time. With more, the timeout of a waiting job would run, too.
const TAKEN: usize = 1;
/// The longest time that a node may keep an idle worker's lease call open.
const WAIT: Duration = Duration::from_secs(2);

/// Runs one worker with its restarts.
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

/// One session of a worker.
struct Worker {
    shared: Arc<Shared>,
    nodes: Nodes,
    record: WorkerRecord,
}

/// The result of running a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The attempt was reported, or another worker has the job.
    Over,
    /// The worker crashed during the job.
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

    /// Runs a job and sends heartbeats for all held jobs.
    async fn run(&self, leased: &Leased, held: &[Leased]) -> Outcome {
        let Some(job) = leased.job() else { return Outcome::Over };
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
                            // The run hangs until the lease of the job is lost.
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

    /// Returns whether the job is cancelled; none if the worker no longer holds it.
    async fn heartbeat(&self, id: JobId, held: &[Leased]) -> Option<bool> {
        let held_job = |leased: &Leased| HeldJob { id: JobId(leased.task.key.subject), epoch: leased.task.epoch };
        let held = held.iter().map(held_job).collect::<Vec<_>>();
        let node = self.nodes.pick(&self.shared.rng);
        match ask(&node, node.engine.heartbeat(self.record.session.id, Some(&held))).await {
            Some(Err(_)) => None,
            Some(Ok(beat)) if beat.lost.contains(&id) => None,
            Some(Ok(beat)) => Some(beat.cancelled.contains(&id)),
            None => Some(false),
        }
    }

    /// Reports the end of a job and repeats the report until it is answered.
    async fn end(&self, id: JobId, by: LeaseProof, run: usize, ending: Ending) {
        let (report, result) = match ending {
            Ending::Complete => (Report::Completed, Some(Bytes::from(format!("{{\"run\":{run}}}")))),
            Ending::Snooze => (Report::Snoozed { wait: Duration::from_secs(2) }, None),
            Ending::GiveUp => (Report::Cancelled, None),
            Ending::Fail | Ending::Panic | Ending::Hang => (Report::Failed { retry_after: None }, None),
        };
        self.shared.end_run(run, report.classify().0);
        // The worker must repeat its report until it is answered. If it only stopped listing the job as held, the next
        // lease call would hand the job back as if it had never started.
        loop {
            let log = format!("run {run}");
            let ending = remote::Ending { report, note: Note::new("", [log.as_str()]), result: result.clone() };
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

fn count(taken: &Result<Vec<Leased>, WorkerRefused>) -> Option<usize> {
    taken.as_ref().ok().map(Vec::len)
}
