//! Measures what retention costs the clients: traffic while retention prunes, compared with traffic while it does not.
//!
//! The schedules of retention are paused, so that only the pruning started here runs, one kind of row after another.
//! The keys, jobs and once-slots are few and are gone before the traffic ends. The messages must outlast the traffic; a
//! run in which they do not fails.

use std::time::Duration;

use anyhow::{Context, ensure};

use crate::bench::{Bench, RUN_DEADLINE, Ran, explain, prepare};
use crate::expired::{Ages, Expired};
use crate::process::{Place, Server};
use crate::receiver::{Plan, Receiver};
use crate::report::{Row, Runs};

/// The pruned kinds of rows, in this order.
const PRUNED: [&str; 4] = ["keys", "jobs", "once-slots", "messages"];
const MESSAGES: usize = 80_000;
/// A transaction prunes two hundred rows and is followed by a pause of at least 20 ms. Fewer messages might not outlast
/// the smallest run.
const EXPIRED_MESSAGES_MIN: usize = 20_000;
const LOOK: Duration = Duration::from_millis(100);

pub(super) async fn run(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let mut runs = Runs::default();
    for _ in bench.runs("retention") {
        let (alone, _) = measure(bench, false).await?;
        let (beside, note) = measure(bench, true).await?;
        runs.push(beside.rate, alone.rate);
        runs.cost(&beside);
        runs.checked.add(alone.checked);
        runs.note = format!("last run: {:.0} us of CPU without; {note}", alone.cpu_us);
    }
    Ok(vec![runs.row("retention", bench.store, "/s", ">= 95 %")])
}

/// Sends messages to a store with expired rows. Returns the results of the traffic and the rows pruned meanwhile.
async fn measure(bench: &Bench<'_>, prunes: bool) -> anyhow::Result<(Ran, String)> {
    let mut place = bench.place().await?;
    let (ages, filled) = (Ages::of(&place)?, expired(bench));
    let days = ages.kept_days.to_string();
    for setting in ["EVERHOOK_KEEP_MESSAGES_DAYS", "EVERHOOK_KEEP_JOBS_DAYS", "EVERHOOK_KEEP_ONCE_SLOTS_DAYS"] {
        place.settings.push((setting, days.clone()));
    }
    let server = place.start().await?;
    let receiver = Receiver::start(Plan::of(bench.scaled(MESSAGES), 1)).await?;
    prepare(&server, "bench", &receiver).await?;
    tell_schedules(&server, "pause").await?;
    server.stop().await?;
    ages.write(&place, &filled).await?;
    let server = place.start().await?;
    if prunes {
        tell_schedules(&server, "run").await?;
    }
    let ran = bench.closed_loop(&[&server], "bench", &receiver).await?;
    let left = ages.left(&place).await?;
    explain(&server).await?;
    let note = if prunes {
        ensure!(left.messages > 0, "retention ended before the traffic: {filled:?} are too few");
        finish(&ages, &place, &filled, &filled.without(&left)).await?
    } else {
        ensure!(left == filled, "rows were pruned although retention was paused: {left:?} are left of {filled:?}");
        String::new()
    };
    server.stop().await?;
    place.remove().await?;
    Ok((ran, note))
}

/// The number of expired rows for this scale.
fn expired(bench: &Bench<'_>) -> Expired {
    let messages = bench.scaled(MESSAGES);
    let few = messages / 10;
    // PostgreSQL prunes several pages of keys at a time. If all keys are expired, these are many more than in one
    // transaction of the other kinds.
    let keys = if bench.database.is_some() { messages } else { few };
    Expired { keys, jobs: few, once_slots: few, messages: (messages * 6).max(EXPIRED_MESSAGES_MIN) }
}

/// Pauses or runs the schedules of retention. A server creates them after it has started, so this waits for them.
async fn tell_schedules(server: &Server, verb: &str) -> anyhow::Result<()> {
    for what in PRUNED {
        let path = format!("/api/v1/schedule/everhook.prune-{what}");
        let is_there = async {
            while server.get_as_admin(&path).await.is_err() {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::time::timeout(RUN_DEADLINE, is_there).await.with_context(|| format!("there is no {path}"))?;
        server.post_as_admin(&format!("{path}/{verb}")).await?;
    }
    Ok(())
}

/// Waits until every kind of row was pruned at least in part, because a small run may end earlier. Returns a
/// description of the rows pruned during the traffic.
async fn finish(ages: &Ages, place: &Place, filled: &Expired, meanwhile: &Expired) -> anyhow::Result<String> {
    let all = async {
        loop {
            let left = ages.left(place).await?;
            let pruned = filled.without(&left);
            if pruned.messages > filled.messages_of_a_week() {
                ensure!(left == Expired { messages: left.messages, ..Expired::default() }, "{left:?} are left");
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(RUN_DEADLINE, all).await.context("retention did not reach the messages in time")??;
    let dropped = ages.dropped(place).await?;
    ensure!(place.url().is_none() || !dropped.is_empty(), "no week was dropped");
    let Expired { keys, jobs, once_slots, messages } = meanwhile;
    let weeks = if dropped.is_empty() { String::new() } else { format!("; dropped a week: {}", dropped.join(", ")) };
    Ok(format!("pruned {keys} keys, {jobs} jobs, {once_slots} once-slots, {messages} messages{weeks}"))
}
