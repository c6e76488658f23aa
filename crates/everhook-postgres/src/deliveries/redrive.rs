//! Resend and redrive: one more attempt on request, and dead deliveries made pending again.

use everhook_core::id::{EndpointId, EnvironmentId, ID_BYTES, Id, MessageId, TaskId};
use everhook_core::lane::HoldKind;
use everhook_core::policy::order::OrderKey;
use everhook_core::resource::ResourceKind;
use everhook_core::task::{TaskKey, Trigger};
use everhook_core::time::Timestamp;
use everhook_store::append::{TakesPosition, new_delivery};
use everhook_store::history::{Redrive, Resend, Resent};
use everhook_store::resource::Parent;
use everhook_store::sql::shared::FindResource;
use everhook_store::statement;

use crate::append::lower_lanes_due;
use crate::columns::{DueLane, DueLanes};
use crate::dedup;
use crate::error::Fault;
use crate::lease::{FindMessage, MessageKey};
use crate::order::{append_ordered, promote};
use crate::settle::{FreeLane, FreedLane};
use crate::store::PostgresStore;
use crate::tx::Now;

statement! {
    RedriveTask<'a> = "redrive_task" {
        environment: EnvironmentId, lane: EndpointId, since: &'a [u8], until: &'a [u8], message: Option<MessageId>,
        limit: usize, now: Timestamp,
    } -> Vec<(Timestamp, Option<OrderKey>)>;
}

impl PostgresStore {
    pub(crate) async fn resend_once(&self, environment: EnvironmentId, resend: &Resend) -> Result<Resent, Fault> {
        let (application, endpoint) = (resend.application, resend.endpoint);
        let tx = self.database.tx().await?;
        tx.begin(()).await?;
        if let Some(key) = &resend.key
            && let Some(holder) = dedup::take_one(&tx, environment, key, resend.message.0).await?
        {
            tx.roll_back().await?;
            return Ok(if holder.body == key.body { Resent::Repeated } else { Resent::KeyReused });
        }
        let message = MessageKey { environment, application, id: resend.message };
        let find_message = FindMessage { wanted: [message].into_iter().collect() };
        let find_endpoint =
            FindResource { environment, kind: ResourceKind::Endpoint, parent: Parent::of(application), id: endpoint.0 };
        let (messages, endpoint, now) = tx.run((find_message, find_endpoint, Now {})).await?;
        let is_present = endpoint.is_some_and(|(row, _)| row.deleted_at.is_none());
        let (Some((_, message)), true, Some(now)) = (messages.first(), is_present, now) else {
            tx.roll_back().await?;
            return Ok(Resent::NotFound);
        };
        if message.payload.is_none() {
            tx.roll_back().await?;
            return Ok(Resent::NoPayload);
        }
        let key = TaskKey { environment, subject: resend.message.0, id: TaskId(self.ids.next(now)) };
        let task = new_delivery(key, resend.endpoint.lane(), Trigger::Manual, now);
        let append_task = append_ordered(&[(task, None)], TakesPosition::Behind);
        // Later deliveries may overtake this one: it does not mark the lane as waiting.
        tx.finish((append_task, lower_lanes_due(due_lane(environment, resend.endpoint, now)))).await?;
        Ok(Resent::Pending)
    }

    pub(crate) async fn redrive_once(&self, environment: EnvironmentId, redrive: &Redrive) -> Result<usize, Fault> {
        let since = redrive.since.map_or(Id::MIN, Id::floor);
        let until = redrive.until.map_or(vec![0xff; ID_BYTES + 1], |until| Id::floor(until).as_bytes().to_vec());
        let tx = self.database.tx().await?;
        let now = tx.begin_now().await?;
        let put_back = RedriveTask {
            environment,
            lane: redrive.endpoint,
            since: since.as_bytes(),
            until: &until,
            message: redrive.message,
            limit: redrive.limit,
            now,
        };
        let put_back = tx.run(put_back).await?;
        let redriven = put_back.len();
        let Some(first) = put_back.iter().map(|(due_at, _)| *due_at).min() else {
            tx.roll_back().await?;
            return Ok(0);
        };
        let free_lane = FreedLane::new(environment, redrive.endpoint.lane(), HoldKind::Blocked..=HoldKind::Blocked);
        let free_lane = FreeLane { wanted: [free_lane].into_iter().collect() };
        let lane = redrive.endpoint.lane();
        let promote = promote(put_back.iter().filter_map(|(_, key)| Some((environment, lane, (*key)?))));
        tx.finish((free_lane, promote, lower_lanes_due(due_lane(environment, redrive.endpoint, first.min(now)))))
            .await?;
        Ok(redriven)
    }
}

/// The lane of an endpoint with a task that is due and may be overtaken.
fn due_lane(environment: EnvironmentId, endpoint: EndpointId, due_at: Timestamp) -> DueLanes {
    [DueLane::new(environment, endpoint.lane(), due_at)].into_iter().collect()
}
