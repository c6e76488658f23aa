//! Compares two nodes on one PostgreSQL with one node. The nodes share the machine, so the measurement shows whether
//! they disturb each other.
//!
//! In one variant both nodes have all roles, and each serves half of the clients. In the other variant the nodes only
//! deliver messages that another node accepted, so that every delivery needs a lease.

use crate::bench::{Bench, Ran, explain, prepare};
use crate::process::{Place, Server};
use crate::receiver::{Plan, Receiver};
use crate::report::{Row, Runs};

/// The distribution of work between the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Roles {
    All,
    Workers,
}

/// Counters of PostgreSQL and of the logs.
#[derive(Clone, Copy, Debug, Default)]
struct Conflicts {
    rollbacks: i64,
    deadlocks: i64,
    /// Warnings and errors in the servers' logs.
    complaints: usize,
}

pub(super) async fn run(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    if bench.database.is_none() {
        return Ok(Vec::new());
    }
    let mut rows = Vec::new();
    for (roles, name) in [(Roles::All, "2 nodes"), (Roles::Workers, "2 workers")] {
        let mut runs = Runs::default();
        for _ in bench.runs("replicas") {
            let (one, _) = measure(bench, roles, 1).await?;
            let (two, conflicts) = measure(bench, roles, 2).await?;
            runs.push(two.rate, one.rate);
            runs.cost(&two);
            runs.checked.add(one.checked);
            let Conflicts { rollbacks, deadlocks, complaints } = conflicts;
            runs.note = format!("last run: {rollbacks} rollbacks, {deadlocks} deadlocks, {complaints} warnings logged");
        }
        rows.push(runs.row(name, bench.store, "/s", ">= 90 % of one"));
    }
    Ok(rows)
}

async fn measure(bench: &Bench<'_>, roles: Roles, nodes: usize) -> anyhow::Result<(Ran, Conflicts)> {
    let place = bench.place().await?;
    let mut servers = Vec::new();
    if roles == Roles::Workers {
        servers.push(place.start_as("api").await?);
    }
    for _ in 0..nodes {
        servers.push(place.start_as(if roles == Roles::Workers { "worker" } else { "all" }).await?);
    }
    let receiver = Receiver::start(Plan::of(bench.scaled(10_000), 2)).await?;
    prepare(&servers[0], "bench", &receiver).await?;
    let ran = bench.closed_loop(&servers.iter().collect::<Vec<_>>(), "bench", &receiver).await?;
    for server in &servers {
        explain(server).await?;
    }
    let conflicts = conflicts(&place, &servers).await?;
    for server in servers {
        server.stop().await?;
    }
    place.remove().await?;
    Ok((ran, conflicts))
}

async fn conflicts(place: &Place, servers: &[Server]) -> anyhow::Result<Conflicts> {
    let Some(client) = place.client().await? else { return Ok(Conflicts::default()) };
    let counted = "select xact_rollback, deadlocks from pg_stat_database where datname = current_database()";
    let row = client.query_one(counted, &[]).await?;
    let complaints = servers.iter().map(Server::complaints).sum();
    Ok(Conflicts { rollbacks: row.get(0), deadlocks: row.get(1), complaints })
}
