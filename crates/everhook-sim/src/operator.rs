//! A simulated operator who cancels jobs, and retries or skips dead ones.

use std::sync::Arc;
use std::time::Duration;

use everhook_core::batch::Resolution;
use everhook_core::id::{BatchId, JobId};
use everhook_core::job::OperatorCommand;
use everhook_core::scope::Scope;
use everhook_core::task::TaskKind;
use everhook_store::batch::Resolve;
use everhook_store::steer::Steer;
use everhook_testkit::mem::{Tables, TaskPlace};

use crate::client::ENVIRONMENT;
use crate::producer::ask;
use crate::world::{Nodes, Shared};

/// Performs an action every few seconds until it is dropped.
pub(crate) async fn operate(shared: Arc<Shared>, nodes: Nodes) {
    loop {
        tokio::time::sleep(shared.rng.between(Duration::from_secs(1), Duration::from_secs(6))).await;
        if shared.rng.once_in(3) {
            steer(&shared, &nodes).await;
        } else {
            resolve(&shared, &nodes).await;
        }
    }
}

/// Cancels or retries a random job.
async fn steer(shared: &Shared, nodes: &Nodes) {
    let jobs = shared.store.look(|tables| tables.jobs.keys().map(|(_, id)| *id).collect::<Vec<_>>());
    if jobs.is_empty() {
        return;
    }
    let (id, command) = (*shared.rng.pick(&jobs), *shared.rng.pick(&[OperatorCommand::Cancel, OperatorCommand::Retry]));
    let node = nodes.pick(&shared.rng);
    shared.steer(&[id]);
    let plan = ask(&node, node.engine.steer(Scope::of(ENVIRONMENT), Steer::Jobs { ids: vec![id], command })).await;
    let plan = plan.map(|steered| steered.plans);
    shared.trace.event(format_args!("operator wishes {command:?} for {id}: {plan:?}"));
}

/// Retries or skips all or some dead jobs of a batch.
async fn resolve(shared: &Shared, nodes: &Nodes) {
    let Some((batch, mut dead)) = shared.store.look(first_with_dead) else { return };
    dead.truncate(1 + shared.rng.below(dead.len()));
    let how = *shared.rng.pick(&[Resolution::Retried, Resolution::Skipped]);
    let node = nodes.pick(&shared.rng);
    shared.steer(&dead);
    let (count, resolve) = (dead.len(), Resolve { batch, jobs: dead, how });
    let resolved = ask(&node, node.engine.resolve_batch(Scope::of(ENVIRONMENT), resolve)).await;
    shared.trace.event(format_args!("operator resolves {count} of {batch} as {how:?}: {resolved:?}"));
}

fn first_with_dead(tables: &Tables) -> Option<(BatchId, Vec<JobId>)> {
    let dead = tables.tasks.values().filter(|row| row.place == TaskPlace::Dead && row.task.kind == TaskKind::Job);
    let dead = dead.filter_map(|row| Some((row.task.batch?, JobId(row.task.key.subject)))).collect::<Vec<_>>();
    let batch = dead.first()?.0;
    Some((batch, dead.into_iter().filter(|(it, _)| *it == batch).map(|(_, job)| job).collect()))
}
