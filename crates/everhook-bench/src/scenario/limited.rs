//! Measures the rate of 10,000 rate-limited endpoints of 1,000 applications, against as many endpoints without a limit.
//! The limit is never reached: the scenario measures the cost of counting.

use std::sync::Arc;
use std::time::Instant;

use futures_util::stream::{self, StreamExt, TryStreamExt};

use crate::bench::{Bench, explain, within};
use crate::load::Load;
use crate::process::Server;
use crate::receiver::{Plan, Receiver};
use crate::report::{Row, Runs};

const CLIENTS: usize = 128;
const APPLICATIONS: usize = 1_000;
const ENDPOINTS: usize = 10;
/// Messages to each application.
const MESSAGES: usize = 4;
/// Deliveries per second of each limited endpoint: more than it gets.
const RATE: usize = 1_000;
/// Requests under way while applications and endpoints are created.
const CREATING: usize = 16;

pub(super) async fn run(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let mut runs = Runs::default();
    for _ in bench.runs("limited") {
        let place = bench.place().await?;
        let server = place.start().await?;
        let free = measure(bench, &server, "free", None, &mut runs).await?;
        let limited = measure(bench, &server, "limited", Some(RATE), &mut runs).await?;
        eprintln!("  delivered {free:.0}/s without limits, {limited:.0}/s with them");
        runs.push(limited, free);
        explain(&server).await?;
        server.stop().await?;
        place.remove().await?;
    }
    runs.note = format!("{ENDPOINTS} endpoints of each of {} applications", bench.scaled(APPLICATIONS));
    Ok(vec![runs.row("rate-limited endpoints", bench.store, "/s", ">= 80 %")])
}

/// Sends messages to all applications in turn, and returns the deliveries per second.
async fn measure(
    bench: &Bench<'_>,
    server: &Server,
    name: &str,
    rate: Option<usize>,
    runs: &mut Runs,
) -> anyhow::Result<f64> {
    let applications: Vec<String> = (0..bench.scaled(APPLICATIONS)).map(|n| format!("{name}{n}")).collect();
    let receiver = Receiver::start(Plan::of(applications.len() * MESSAGES, ENDPOINTS)).await?;
    let created = stream::iter(&applications).map(|application| create(server, application, rate, &receiver));
    created.buffer_unordered(CREATING).try_collect::<()>().await?;
    let load = Load::scattered(server, &applications, receiver.plan().messages, CLIENTS);
    let started = Instant::now();
    within(&receiver, async {
        load.run().await?;
        receiver.all().await;
        Ok(())
    })
    .await?;
    let deliveries = receiver.plan().messages * ENDPOINTS;
    runs.checked.add(receiver.check());
    Ok(deliveries as f64 / started.elapsed().as_secs_f64())
}

async fn create(
    server: &Server,
    application: &str,
    rate: Option<usize>,
    receiver: &Arc<Receiver>,
) -> anyhow::Result<()> {
    server.post("/api/v1/app", &format!("{{\"name\":\"bench\",\"uid\":\"{application}\"}}")).await?;
    for endpoint in 0..ENDPOINTS {
        let rate = rate.map(|rate| format!(",\"throttleRate\":{rate}")).unwrap_or_default();
        let body = format!("{{\"url\":\"http://{}/{endpoint}\"{rate}}}", receiver.address);
        server.post(&format!("/api/v1/app/{application}/endpoint"), &body).await?;
    }
    Ok(())
}
