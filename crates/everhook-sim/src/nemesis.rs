//! Makes things go wrong, by the seed.

use std::sync::Arc;
use std::time::Duration;

use crate::gate::Health;
use crate::node::{LEASE, Node};
use crate::world::{Nodes, Shared};

/// Does something bad every few seconds until it is dropped.
pub(crate) async fn rage(shared: Arc<Shared>, nodes: Nodes) {
    loop {
        tokio::time::sleep(shared.rng.between(Duration::from_millis(100), LEASE)).await;
        let at = shared.rng.below(nodes.len());
        match shared.rng.below(6) {
            0 | 1 => crash(&shared, &nodes, at).await,
            2 => pause(&shared, &nodes, at).await,
            3 => stall(&shared).await,
            4 => storm(&shared).await,
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

/// A while in which most calls and sends fail.
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
    node.engine.drain(grace).await;
    node.gate.set(Health::Dead);
    nodes.put(at, Node::start(shared, at).await);
}
