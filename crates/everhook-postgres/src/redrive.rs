//! To have it happen again: one more attempt on request, and dead deliveries put back.

use everhook_core::id::{EnvironmentId, ID_BYTES, Id, TaskId};
use everhook_core::task::{TaskKey, Trigger};
use everhook_store::append::new_delivery;
use everhook_store::history::{Redrive, Resend, Resent};
use futures_util::future::{try_join, try_join3};
use tokio_postgres::Row;

use crate::catalog::count;
use crate::columns::TaskColumns;
use crate::error::Fault;
use crate::keys;
use crate::rows::{self, ENDPOINT_COLUMNS, Reader};
use crate::sql;
use crate::statement::{Params, Statements, within};
use crate::store::PostgresStore;

impl PostgresStore {
    pub(crate) async fn resend_once(&self, environment: EnvironmentId, resend: &Resend) -> Result<Resent, Fault> {
        let (application, message) = (resend.application.as_bytes().as_slice(), resend.message.as_bytes().as_slice());
        let transaction = self.database.transaction().await?;
        transaction.begin().await?;
        if let Some(key) = &resend.key
            && let Some(holder) = keys::take_one(&transaction, environment, key, resend.message.0).await?
        {
            transaction.roll_back().await?;
            return Ok(if holder.body == key.body { Resent::Repeated } else { Resent::KeyReused });
        }
        let (find_message, find_endpoint, read_clock) = (
            transaction.prepare(&sql::FIND_MESSAGE).await?,
            transaction.prepare(&sql::FIND_ENDPOINT).await?,
            transaction.prepare(&sql::NOW).await?,
        );
        let (environments, applications, messages) = ([environment.0], [application], [message]);
        let (messages, endpoints, now) = within(try_join3(
            transaction
                .query(&find_message, &[&environments.as_slice(), &applications.as_slice(), &messages.as_slice()]),
            transaction.query(&find_endpoint, &[&environment.0, &application, &resend.endpoint.as_bytes().as_slice()]),
            transaction.query(&read_clock, &[]),
        ))
        .await?;
        let message = messages.first().map(rows::message).transpose()?;
        let present = endpoints.first().map(is_present).transpose()?.unwrap_or(false);
        let (Some((_, message)), true, Some(now)) = (message, present, now.first()) else {
            transaction.roll_back().await?;
            return Ok(Resent::NotFound);
        };
        if message.payload.is_none() {
            transaction.roll_back().await?;
            return Ok(Resent::NoPayload);
        }
        let now = Reader::new(now, "clock").time("now")?;
        let key = TaskKey { environment, subject: resend.message.0, id: TaskId(self.ids.next(now)) };
        let task = new_delivery(key, resend.endpoint.lane(), Trigger::Manual, now);
        let mut columns = TaskColumns::default();
        columns.push(&task, None);
        let append_task = transaction.prepare(&sql::APPEND_TASK).await?;
        let touch_lane = transaction.prepare_touch(&sql::TOUCH_LANE).await?;
        // It may be overtaken: somebody asked for one more attempt, nobody waits behind it.
        let (lanes, due, waits) = ([task.lane.as_bytes().as_slice()], [now.as_micros()], [false]);
        let touched: Params<'_> = &[&environments.as_slice(), &lanes.as_slice(), &due.as_slice(), &waits.as_slice()];
        let params = columns.params();
        transaction
            .commit_with(try_join(transaction.execute(&append_task, &params), transaction.touch(&touch_lane, touched)))
            .await?;
        Ok(Resent::Pending)
    }

    pub(crate) async fn redrive_once(&self, environment: EnvironmentId, redrive: &Redrive) -> Result<usize, Fault> {
        let lane = redrive.endpoint.as_bytes().as_slice();
        let since = redrive.since.map_or(Id::MIN, Id::floor).as_bytes().to_vec();
        let until = redrive.until.map_or(vec![0xff; ID_BYTES + 1], |until| Id::floor(until).as_bytes().to_vec());
        let message = redrive.message.as_ref().map(|message| message.as_bytes().as_slice());
        let transaction = self.database.transaction().await?;
        let read_clock = transaction.prepare(&sql::NOW).await?;
        let now = transaction.begin_with(transaction.query(&read_clock, &[])).await?;
        let now = now.first().ok_or(Fault::Contended("the clock gave no answer"))?;
        let now: i64 = Reader::new(now, "clock").get("now")?;
        let params: Params<'_> = &[&environment.0, &lane, &since, &until, &message, &count(redrive.limit), &now];
        let put_back = transaction.change(&sql::REDRIVE_TASK, params).await?;
        if put_back == 0 {
            transaction.roll_back().await?;
            return Ok(0);
        }
        let touch_lane = transaction.prepare_touch(&sql::TOUCH_LANE).await?;
        let (environments, lanes, due, waits) = ([environment.0], [lane], [now], [false]);
        let params: Params<'_> = &[&environments.as_slice(), &lanes.as_slice(), &due.as_slice(), &waits.as_slice()];
        transaction.commit_with(transaction.touch(&touch_lane, params)).await?;
        Ok(usize::try_from(put_back).unwrap_or(usize::MAX))
    }
}

fn is_present(row: &Row) -> Result<bool, Fault> {
    Reader::from(row, "endpoint", ENDPOINT_COLUMNS).get::<Option<i64>>("deleted_at").map(|deleted| deleted.is_none())
}
