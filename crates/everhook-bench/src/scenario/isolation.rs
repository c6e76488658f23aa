//! Measures latencies at a constant rate, alone and beside a bad endpoint or a noisy application.

use crate::bench::{Bench, explain, prepare};
use crate::fill::{Backlog, Due};
use crate::load::Load;
use crate::process::Server;
use crate::receiver::{Plan, Receiver};
use crate::report::{Row, Runs};
use crate::scenario::rate::{Spread, open_loop};

/// Messages per second of the application that should not be affected.
const RATE: f64 = 200.0;
const NOISY_RATE: f64 = 10.0 * RATE;
const CLIENTS: usize = 64;
/// Hanging endpoints of one application, each with a few messages: more than a node has slots.
const CROWD: usize = 1000;
const CROWD_MESSAGES: usize = 5;
const FLOOD: usize = 1_000_000;
/// Rows of the flood that share one message.
const FLOOD_COPIES: usize = 100;
const SECONDS: f64 = 10.0;

/// The disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Hanging,
    /// An application with many hanging endpoints.
    Crowd,
    Flooded,
    Noisy,
}

pub(super) async fn run(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let neighbours = [
        (Beside::Hanging, "p99 beside a hanging one"),
        (Beside::Crowd, "p99 beside 1,000 hanging ones"),
        (Beside::Flooded, "p99 beside a flooded one"),
        (Beside::Noisy, "p99 beside a noisy one"),
    ];
    let mut rows = Vec::new();
    for (beside, name) in neighbours {
        let mut runs = Runs::default();
        for run in bench.runs("isolation") {
            let (solo, shared) = measure(bench, beside, run, &mut runs).await?;
            eprintln!("  {beside:?}: alone {solo:.0?}, beside it {shared:.0?} in us");
            runs.push(shared.p99, solo.p99);
        }
        rows.push(runs.row(name, bench.store, "us", "<= 200 % or 20 ms"));
    }
    Ok(rows)
}

async fn measure(bench: &Bench<'_>, beside: Beside, run: usize, runs: &mut Runs) -> anyhow::Result<(Spread, Spread)> {
    let place = bench.place().await?;
    let messages = (NOISY_RATE * bench.seconds(SECONDS)) as usize;
    let plan = match beside {
        Beside::Hanging => Plan { hangs: true, ..Plan::of(messages / 10, 1) },
        Beside::Crowd => Plan { hangs: true, ..Plan::of(CROWD_MESSAGES, bench.scaled(CROWD)) },
        Beside::Flooded => Plan::of(bench.scaled(FLOOD) / FLOOD_COPIES, 1),
        Beside::Noisy => Plan::of(messages, 1),
    };
    let neighbour = Receiver::start(plan).await?;
    let server = place.start().await?;
    prepare(&server, "neighbour", &neighbour).await?;
    let solo = latency(bench, &server, &format!("solo{run}"), runs).await?;
    let server = if beside == Beside::Flooded {
        server.stop().await?;
        Backlog { application: "neighbour", messages: plan.messages, copies: FLOOD_COPIES, due: Due::Now }
            .write(&place)
            .await?;
        place.start().await?
    } else {
        server
    };
    let load = Load::messages(&server, "neighbour", plan.messages, CLIENTS);
    let noise = async {
        match beside {
            Beside::Hanging => drop(load.run_at(RATE, neighbour.zero).await?),
            Beside::Crowd => drop(load.run_at(RATE, neighbour.zero).await?),
            Beside::Noisy => drop(load.run_at(NOISY_RATE, neighbour.zero).await?),
            Beside::Flooded => {}
        }
        anyhow::Ok(())
    };
    let name = format!("shared{run}");
    let ((), shared) = tokio::try_join!(noise, latency(bench, &server, &name, runs))?;
    if beside == Beside::Noisy {
        neighbour.all().await;
        runs.checked.add(neighbour.check());
    }
    explain(&server).await?;
    server.stop().await?;
    place.remove().await?;
    Ok((solo, shared))
}

/// Measures the time until the messages of one application are received.
async fn latency(bench: &Bench<'_>, server: &Server, name: &str, runs: &mut Runs) -> anyhow::Result<Spread> {
    let receiver = Receiver::start(Plan::of((RATE * bench.seconds(SECONDS)) as usize, 1)).await?;
    prepare(server, name, &receiver).await?;
    let load = Load::messages(server, name, receiver.plan().messages, CLIENTS);
    let (_, received) = open_loop(load, RATE, &receiver).await?;
    runs.checked.add(receiver.check());
    Ok(received)
}
