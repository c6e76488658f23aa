//! Deliveries as users see them, found through messages or open tasks.

use everhook_core::delivery::DeliveryKey;
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, MessageId};
use everhook_core::limits::STATS_ROWS_MAX;
use everhook_core::message::Message;
use everhook_core::outcome::Class;
use everhook_store::catalog::{Locator, Order};
use everhook_store::delivery::{
    DeliveryFilter, DeliveryRecord, EndpointCounts, Listing, PageBytes, Period, Visit, Visited, VisitedTask,
};
use everhook_store::piece::{IdRange, Piece};
use everhook_store::sql::shared::{CountEndpoint, ListDeliveryMessage, MessageStep};
use everhook_store::statement;

use crate::clock;
use crate::connection::Connection;
use crate::error::Fault;
use crate::history;
use crate::sql::run;

pub(crate) mod redrive;
pub(crate) mod steer;

statement! {
    ListDelivery = "list_delivery" {
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
        let visit = visit(conn, environment, filter, range, limit)?;
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

pub(crate) fn count(
    conn: &Connection,
    environment: EnvironmentId,
    endpoint: EndpointId,
    period: Period,
) -> Result<EndpointCounts, Fault> {
    let (range, Period { since, until }) = (period.range(), period);
    let (above, below, rows_max) = (range.above.as_slice(), range.below.as_slice(), STATS_ROWS_MAX);
    let count = CountEndpoint { environment, endpoint, since, until, above, below, rows_max };
    Ok(run(conn, count)?.unwrap_or_default())
}

/// Visits the rows of one step, in order.
fn visit(
    conn: &Connection,
    environment: EnvironmentId,
    filter: &DeliveryFilter,
    range: &IdRange,
    limit: usize,
) -> Result<Visit, Fault> {
    let step = MessageStep { above: &range.above, below: &range.below, limit, order: filter.slice.order };
    match filter.visited() {
        Visited::One(message) => Ok(Visit::of_messages(vec![message.0])),
        Visited::Messages(application) => {
            Ok(Visit::of_messages(run(conn, ListDeliveryMessage { environment, application, step })?))
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
    let step = MessageStep { above: &range.above, below: &range.below, limit, order: Order::Ascending };
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
        let Some(message) = history::find(conn, environment, *application, &Locator::Id(*id))? else { continue };
        let has_room = bytes.add(&message);
        payloads.push(message);
        if !has_room {
            break;
        }
    }
    Ok(payloads)
}
