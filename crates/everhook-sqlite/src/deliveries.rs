//! Deliveries as users see them, found through messages or open tasks.

use everhook_core::delivery::DeliveryKey;
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, MessageId};
use everhook_core::message::Message;
use everhook_core::outcome::Class;
use everhook_core::scope::AppScope;
use everhook_store::catalog::{Locator, Order};
use everhook_store::delivery::{DeliveryFilter, DeliveryRecord, Listing, PageBytes, Visit, Visited, VisitedTask};
use everhook_store::piece::{IdRange, Piece};
use everhook_store::sql::shared::{DELIVERY_AHEAD, DELIVERY_HOLD, ListMessageId, MessageStep};
use everhook_store::statement;

use crate::clock;
use crate::connection::Connection;
use crate::error::Fault;
use crate::history;
use crate::sql::run;

pub(crate) mod redrive;
pub(crate) mod steer;

statement! {
    ListDelivery = ["list_delivery", DELIVERY_HOLD, DELIVERY_AHEAD] {
        environment: EnvironmentId, application: Option<ApplicationId>, message: MessageId,
        endpoint: Option<EndpointId>,
    } -> Vec<DeliveryRecord>;
    ListDeliveryTask<'a> = "list_delivery_task" {
        environment: EnvironmentId, class: Option<Class>, step: MessageStep<'a>,
    } -> Vec<VisitedTask>;
}

pub(crate) fn list(
    conn: &Connection,
    environment: EnvironmentId,
    filter: &DeliveryFilter,
) -> Result<Piece<DeliveryRecord, DeliveryKey>, Fault> {
    let mut listing = Listing::new(filter);
    while let Some((range, limit)) = listing.step() {
        let began = clock::ticks();
        let visit = visit(conn, environment, filter, range.step(limit, filter.slice.order))?;
        let mut found = Vec::new();
        for subject in visit.messages() {
            let (application, endpoint) = (filter.application, filter.endpoint);
            let message = MessageId(*subject);
            found.append(&mut run(conn, ListDelivery { environment, application, message, endpoint })?);
        }
        listing.add(&visit, found, clock::ticks().duration_since(began));
    }
    let payloads = read_payloads(conn, environment, &listing.messages())?;
    Ok(listing.finish(payloads))
}

/// Visits the rows of one step, in order.
fn visit(
    conn: &Connection,
    environment: EnvironmentId,
    filter: &DeliveryFilter,
    step: MessageStep<'_>,
) -> Result<Visit, Fault> {
    match filter.visited() {
        Visited::One(message) => Ok(Visit::of_messages(&[message])),
        Visited::Messages(application) => {
            Ok(Visit::of_messages(&run(conn, ListMessageId { scope: AppScope::of(environment, application), step })?))
        }
        Visited::Tasks => {
            let tasks = run(conn, ListDeliveryTask { environment, class: filter.class, step })?;
            Ok(Visit::of_tasks(&tasks, filter))
        }
    }
}

/// Lists open tasks with subjects in a range, in order.
pub(crate) fn list_open(
    conn: &Connection,
    environment: EnvironmentId,
    range: &IdRange,
    limit: usize,
) -> Result<Vec<VisitedTask>, Fault> {
    let step = range.step(limit, Order::Ascending);
    run(conn, ListDeliveryTask { environment, class: None, step })
}

/// Reads messages with their payloads, up to the bytes of a page.
fn read_payloads(
    conn: &Connection,
    environment: EnvironmentId,
    wanted: &[(ApplicationId, MessageId)],
) -> Result<Vec<Message>, Fault> {
    let (mut payloads, mut bytes) = (Vec::new(), PageBytes::default());
    for (application, id) in wanted {
        let scope = AppScope::of(environment, *application);
        let Some(message) = history::find(conn, scope, &Locator::Id(*id))? else { continue };
        let has_room = bytes.add(&message);
        payloads.push(message);
        if !has_room {
            break;
        }
    }
    Ok(payloads)
}
