//! The outbox in the store's own database: how fast its rows become messages, compared with what the API accepts in the same run.

use std::time::{Duration, Instant};

use anyhow::Context;

use crate::process::Server;
use crate::receiver::{Checked, Receiver, payload};
use crate::report::{Row, median};
use crate::scenario::{Bench, CLIENTS, RUN_DEADLINE, message_load, prepare};

/// How often it is looked whether the outbox is empty.
const LOOK: Duration = Duration::from_millis(2);

impl Bench<'_> {
    /// Rows per second from their commit until the outbox is empty; the limit is the API's rate from the first request to the last 202.
    pub(crate) async fn outbox(&self, messages: usize) -> anyhow::Result<Row> {
        let (mut rates, mut limits, mut cpu, mut resident) = (vec![], vec![], vec![], vec![]);
        let mut checked = Checked::default();
        for run in 1..=self.arguments.runs {
            eprintln!("outbox on {}, run {run} of {}", self.store, self.arguments.runs);
            let (server, _admin, _client) = self.server_with_client().await?;
            let receiver = Receiver::start(messages, 1).await?;
            prepare(&server, &receiver, 1).await?;
            limits.push(messages as f64 / message_load(&server, messages, CLIENTS).run().await?);
            finish(server, &receiver, &mut checked).await?;

            let (server, _admin, client) = self.server_with_client().await?;
            let receiver = Receiver::start(messages, 1).await?;
            prepare(&server, &receiver, 1).await?;
            let payloads: Vec<String> = (0..messages).map(payload).collect();
            let cpu_before = server.cpu_seconds() + self.database_cpu();
            client.batch_execute("begin").await?;
            let send = "select everhook.send('bench', 'bench.event', payload) from unnest($1::text[]) as payload";
            client.query(send, &[&payloads]).await?;
            let started = Instant::now();
            client.batch_execute("commit").await?;
            while !client.query("select 1 from everhook.outbox limit 1", &[]).await?.is_empty() {
                tokio::time::sleep(LOOK).await;
            }
            rates.push(messages as f64 / started.elapsed().as_secs_f64());
            cpu.push((server.cpu_seconds() + self.database_cpu() - cpu_before) / messages as f64 * 1e6);
            resident.push(server.resident_mib());
            finish(server, &receiver, &mut checked).await?;
        }
        let (rate, limit) = (median(&rates), median(&limits));
        Ok(Row {
            scenario: "outbox, of API accepts".to_owned(),
            store: self.store.to_owned(),
            median: rate,
            runs: rates,
            unit: "/s",
            limit,
            ratio: rate / limit,
            cpu_us_per_message: median(&cpu),
            wal_bytes_per_delivery: 0.0,
            resident_mib: median(&resident),
            checked,
        })
    }
}

/// Waits for the deliveries, and checks them.
async fn finish(server: Server, receiver: &Receiver, checked: &mut Checked) -> anyhow::Result<()> {
    let all = tokio::time::timeout(RUN_DEADLINE, receiver.all()).await;
    all.with_context(|| format!("only {} deliveries came", receiver.received()))?;
    server.stop().await?;
    let run = receiver.check();
    checked.lost += run.lost;
    checked.invented += run.invented;
    checked.duplicated += run.duplicated;
    Ok(())
}
