//! Messages and their destinations. Attempts have a file of their own.

use everhook_core::id::{ApplicationId, EnvironmentId, MessageId};
use everhook_core::message::Message;
use everhook_core::name::Name;
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Locator, Order};
use everhook_store::dedup::DedupKey;
use everhook_store::history::{MessageFilter, message_bytes};
use everhook_store::piece::{Piece, after, before, skipped};
use everhook_store::sql::rows::names;
use everhook_store::sql::shared::{ExpungeMessage, ScanMessage};
use everhook_store::statement;

use crate::connection::Connection;
use crate::dedup;
use crate::error::Fault;
use crate::sql::{run, stream};
use crate::writer::Tx;

pub(crate) mod attempt;

statement! {
    FindMessage = "find_message" { environment: EnvironmentId, application: ApplicationId, id: MessageId }
        -> Option<Message>;
    ListMessage<'a> = "list_message" {
        environment: EnvironmentId, application: ApplicationId, above: &'a [u8], below: &'a [u8], before: Timestamp,
        after: Timestamp, channel: Option<&'a Name>, tag: Option<&'a Name>, event_types: Option<String>,
        text: Option<&'a [u8]>, limit: usize, order: Order,
    } -> Vec<Message>;
}

pub(crate) fn find(
    conn: &Connection,
    environment: EnvironmentId,
    application: ApplicationId,
    locator: &Locator<MessageId>,
) -> Result<Option<Message>, Fault> {
    let id = match locator {
        Locator::Id(id) => *id,
        Locator::Uid(event_id) => match dedup::find(conn, environment, &DedupKey::event_id(application, event_id))? {
            Some(holder) => MessageId(holder.object),
            None => return Ok(None),
        },
    };
    run(conn, FindMessage { environment, application, id })
}

pub(crate) fn list(
    conn: &Connection,
    environment: EnvironmentId,
    application: ApplicationId,
    filter: &MessageFilter,
) -> Result<Piece<Message, MessageId>, Fault> {
    let (slice, mut range, mut scanned) = (&filter.slice, filter.range(), None);
    if filter.is_selective() {
        let (above, below) = (range.above.as_slice(), range.below.as_slice());
        let (skipped, order) = (skipped(filter.scan), slice.order);
        scanned = run(conn, ScanMessage { environment, application, above, below, skipped, order })?;
        range = scanned.map_or(range.clone(), |last| range.until(last, slice.order));
    }
    let list = ListMessage {
        environment,
        application,
        above: &range.above,
        below: &range.below,
        before: before(filter.before),
        after: after(filter.after),
        channel: filter.channel.as_ref(),
        tag: filter.tag.as_ref(),
        event_types: names(&filter.event_types),
        text: filter.text.as_ref().map(|text| text.as_bytes()),
        limit: slice.limit,
        order: slice.order,
    };
    let gather = |rows: &mut dyn Iterator<Item = Result<Message, Fault>>| {
        Piece::gather(rows, slice.limit, message_bytes, |row| row.id, scanned.map(MessageId))
    };
    stream(conn, list, gather)
}

pub(crate) fn expunge(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    application: ApplicationId,
    id: MessageId,
) -> Result<bool, Fault> {
    Ok(run(tx.conn, ExpungeMessage { environment, application, id })? == 1)
}
