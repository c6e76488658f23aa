//! Deliveries as users see them, found through messages or open tasks.

use everhook_core::delivery::DeliveryKey;
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, Id, MessageId};
use everhook_core::message::Message;
use everhook_core::outcome::Class;
use everhook_core::scope::Scope;
use everhook_store::catalog::Order;
use everhook_store::delivery::{DeliveryFilter, DeliveryRecord, Listing, PageBytes, Visit, Visited, VisitedTask};
use everhook_store::piece::{IdRange, Piece};
use everhook_store::sql::shared::{DELIVERY_AHEAD, DELIVERY_HOLD, ListMessageId, MessageStep};
use everhook_store::statement;

use crate::columns::{Subject, Subjects};
use crate::error::Fault;
use crate::lease::{FindMessage, MessageKey};
use crate::operations::instant;
use crate::store::PostgresStore;
use crate::tx::Tx;

pub(crate) mod redrive;
pub(crate) mod steer;

/// Payloads that one statement reads. A payload can have a megabyte.
const PAYLOADS_READ: usize = 8;

statement! {
    ListDelivery = ["list_delivery", DELIVERY_HOLD, DELIVERY_AHEAD] {
        wanted: Subjects, endpoint: Option<EndpointId>, environment: EnvironmentId, application: Option<ApplicationId>,
    } -> Vec<DeliveryRecord>;
    ListDeliveryTask<'a> = ["list_delivery_task", "attempt_of_message"] {
        environment: EnvironmentId, class: Option<Class>, step: MessageStep<'a>,
    } -> Vec<VisitedTask>;
}

/// Lists open tasks with subjects in a range, in order.
pub(crate) async fn list_open(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    range: &IdRange,
    limit: usize,
) -> Result<Vec<VisitedTask>, Fault> {
    let step = range.step(limit, Order::Ascending);
    tx.run(ListDeliveryTask { environment, class: None, step }).await
}

impl PostgresStore {
    pub(crate) async fn list_deliveries_once(
        &self,
        environment: EnvironmentId,
        filter: &DeliveryFilter,
    ) -> Result<Piece<DeliveryRecord, DeliveryKey>, Fault> {
        let mut listing = Listing::new(filter);
        while let Some((range, limit)) = listing.step() {
            let began = instant();
            let visit = self.visit(Scope::of(environment), filter, range.step(limit, filter.slice.order)).await?;
            let subject = |id: &Id| Subject { environment, subject: *id };
            let wanted: Subjects = visit.messages().iter().map(subject).collect();
            let (endpoint, application) = (filter.endpoint, filter.application);
            let list = wanted.nonempty().map(|wanted| ListDelivery { wanted, endpoint, environment, application });
            let found = match list {
                Some(list) => self.database.read(list).await?,
                None => Vec::new(),
            };
            listing.add(&visit, found, began.elapsed());
        }
        let payloads = self.read_payloads(environment, &listing.messages()).await?;
        Ok(listing.finish(payloads))
    }

    /// Visits the rows of one step, in order.
    async fn visit(&self, scope: Scope, filter: &DeliveryFilter, step: MessageStep<'_>) -> Result<Visit, Fault> {
        let environment = scope.environment;
        match filter.visited() {
            Visited::One(message) => Ok(Visit::of_messages(&[message])),
            Visited::Messages(application) => {
                let list = ListMessageId { scope: scope.application(application), step };
                Ok(Visit::of_messages(&self.database.read(list).await?))
            }
            Visited::Tasks => {
                let list = ListDeliveryTask { environment, class: filter.class, step };
                Ok(Visit::of_tasks(&self.database.read(list).await?, filter))
            }
        }
    }

    /// Reads messages with their payloads, up to the bytes of a page.
    async fn read_payloads(
        &self,
        environment: EnvironmentId,
        wanted: &[(ApplicationId, MessageId)],
    ) -> Result<Vec<Message>, Fault> {
        let (mut payloads, mut bytes) = (Vec::new(), PageBytes::default());
        for part in wanted.chunks(PAYLOADS_READ) {
            let key = |(application, id): &(ApplicationId, MessageId)| MessageKey {
                environment,
                application: *application,
                id: *id,
            };
            let mut found = self.database.read(FindMessage { wanted: part.iter().map(key).collect() }).await?;
            // The statement returns messages in no particular order, but the page ends after a row of its own order.
            found.sort_by_key(|(_, message)| part.iter().position(|(_, id)| *id == message.id));
            for (_, message) in found {
                let has_room = bytes.add(&message);
                payloads.push(message);
                if !has_room {
                    return Ok(payloads);
                }
            }
        }
        Ok(payloads)
    }
}
