//! Injects faults chosen by the seed.

use std::sync::Arc;
use std::time::Duration;

use crate::gate::Health;
use crate::node::{LEASE, Node};
use crate::world::{Nodes, Shared};

/// Injects a fault every few seconds until it is dropped.
pub(crate) async fn rage(shared: Arc<Shared>, nodes: Nodes) {
    loop {
        tokio::time::sleep(shared.rng.between(Duration::from_millis(100), LEASE)).await;
        revive(&shared, &nodes).await;
        let at = shared.rng.below(nodes.len());
        match shared.rng.below(9) {
            0 | 1 => crash(&shared, &nodes, at).await,
            2 => pause(&shared, &nodes, at).await,
            3 => stall(&shared).await,
            4 => storm(&shared).await,
            5 => throttle(&shared).await,
            6 => fail_over(&shared).await,
            7 => disable(&shared).await,
            _ => stop(&shared, &nodes, at).await,
        }
    }
}

async fn crash(shared: &Arc<Shared>, nodes: &Nodes, at: usize) {
    shared.trace.event(format_args!("nemesis crashes node {at}"));
    nodes.get(at).gate.set(Health::Dead);
    tokio::time::sleep(shared.rng.between(Duration::ZERO, LEASE * 2)).await;
    nodes.put(at, Node::start(shared, at).await);
}

async fn pause(shared: &Arc<Shared>, nodes: &Nodes, at: usize) {
    let node = nodes.get(at);
    shared.trace.event(format_args!("nemesis pauses node {at}"));
    node.gate.set(Health::Paused);
    tokio::time::sleep(shared.rng.between(LEASE / 2, LEASE * 3)).await;
    node.gate.set(Health::Alive);
    shared.trace.event(format_args!("node {at} goes on"));
}

async fn stall(shared: &Arc<Shared>) {
    shared.trace.event(format_args!("nemesis stalls the database"));
    shared.set_stalled(true);
    tokio::time::sleep(shared.rng.between(LEASE / 4, LEASE * 3)).await;
    shared.set_stalled(false);
}

/// Makes most store calls and requests fail for a while.
async fn storm(shared: &Arc<Shared>) {
    shared.trace.event(format_args!("nemesis makes a storm"));
    shared.set_odds(3, 2);
    tokio::time::sleep(shared.rng.between(LEASE / 4, LEASE)).await;
    shared.set_odds_to_normal();
}

async fn stop(shared: &Arc<Shared>, nodes: &Nodes, at: usize) {
    shared.trace.event(format_args!("nemesis stops node {at} in good order"));
    let node = nodes.get(at);
    let grace = shared.rng.between(Duration::ZERO, LEASE);
    tokio::select! {
        biased;
        () = node.engine.drain(grace) => {}
        () = node.gate.died() => {}
    }
    node.gate.set(Health::Dead);
    nodes.put(at, Node::start(shared, at).await);
}

/// Makes receivers throttle requests for a while.
async fn throttle(shared: &Arc<Shared>) {
    shared.trace.event(format_args!("nemesis makes receivers busy"));
    shared.set_throttling(true);
    tokio::time::sleep(shared.rng.between(LEASE / 4, LEASE)).await;
    shared.set_throttling(false);
}

/// Makes the database unavailable for a moment and then changes its clock, as after a failover to another machine.
async fn fail_over(shared: &Arc<Shared>) {
    shared.set_stalled(true);
    tokio::time::sleep(shared.rng.between(Duration::from_millis(100), LEASE)).await;
    let span = shared.rng.between(Duration::ZERO, LEASE * 3);
    let forward = shared.rng.once_in(2);
    shared.trace.event(format_args!(
        "nemesis sets the database's clock {} by {span:?}",
        if forward { "ahead" } else { "back" }
    ));
    shared.jump(span, forward);
    shared.set_stalled(false);
}

/// Disables an endpoint and enables it again later.
async fn disable(shared: &Arc<Shared>) {
    let endpoint = shared.rng.below(shared.endpoints);
    shared.trace.event(format_args!("endpoint {endpoint} is switched off"));
    shared.set_enabled(endpoint, false);
    tokio::time::sleep(shared.rng.between(LEASE / 4, LEASE * 2)).await;
    shared.set_enabled(endpoint, true);
    shared.trace.event(format_args!("endpoint {endpoint} is switched on"));
}

/// Restarts nodes that a poison message or job crashed.
pub(crate) async fn revive(shared: &Arc<Shared>, nodes: &Nodes) {
    for at in 0..nodes.len() {
        if nodes.get(at).gate.health() == Health::Dead {
            nodes.put(at, Node::start(shared, at).await);
        }
    }
}
