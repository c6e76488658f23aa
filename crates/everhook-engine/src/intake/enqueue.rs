//! Enqueues jobs. The jobs of one request share one transaction.

use std::sync::Arc;

use everhook_store::error::StoreError;
use everhook_store::job::{Enqueued, NewJob};
use everhook_store::made::Made;
use everhook_store::store::Op;
use tracing::warn;

use crate::intake::coalescer::{Intake, Weight};
use crate::node::Node;

pub(crate) struct Jobs;

/// The jobs of several requests in order, with the number of jobs per request.
#[derive(Clone)]
pub(crate) struct JobGroup {
    jobs: Arc<[NewJob]>,
    lengths: Vec<usize>,
}

impl Intake for Jobs {
    type Request = Vec<NewJob>;
    type Group = JobGroup;
    type Answer = Vec<Enqueued>;
    const OP: Op = Op::Enqueue;

    fn weight(&self, jobs: &Vec<NewJob>) -> Weight {
        let payloads = jobs.iter().filter_map(|new| new.job.payload.as_ref());
        Weight { rows: jobs.len(), payload_bytes: payloads.map(bytes::Bytes::len).sum() }
    }

    fn join(requests: Vec<Vec<NewJob>>) -> JobGroup {
        let lengths = requests.iter().map(Vec::len).collect();
        JobGroup { jobs: requests.into_iter().flatten().collect(), lengths }
    }

    fn split(group: JobGroup) -> Vec<JobGroup> {
        let mut rest = &*group.jobs;
        let mut groups = Vec::with_capacity(group.lengths.len());
        for length in group.lengths {
            let (jobs, others) = rest.split_at(length);
            groups.push(JobGroup { jobs: jobs.into(), lengths: vec![length] });
            rest = others;
        }
        groups
    }

    async fn write(&self, node: &Arc<Node>, group: JobGroup) -> Result<Vec<Vec<Enqueued>>, StoreError> {
        let environments: Vec<_> = group.jobs.iter().map(|job| job.environment).collect();
        let enqueued = node.store.enqueue(group.jobs).await.inspect_err(|error| {
            warn!(error = error as &dyn std::error::Error, "could not enqueue jobs");
        })?;
        node.activity.changed(environments.into_iter());
        let made = Made::jobs(&enqueued);
        node.metrics.made(made);
        node.wakeups.hint_made(made);
        let mut enqueued = enqueued.into_iter();
        Ok(group.lengths.into_iter().map(|length| enqueued.by_ref().take(length).collect()).collect())
    }
}
