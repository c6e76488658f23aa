//! Messages and their destinations. Attempts have a file of their own.

use everhook_core::id::MessageId;
use everhook_core::message::Message;
use everhook_core::scope::AppScope;
use everhook_store::catalog::Locator;
use everhook_store::dedup::DedupKey;
use everhook_store::history::{MessageSearch, message_bytes};
use everhook_store::piece::Piece;
use everhook_store::query::Messages;
use everhook_store::sql::rows::names;
use everhook_store::sql::shared::{ExpungeMessage, MESSAGE_WINDOW, ScanMessage};
use everhook_store::statement;

use crate::connection::Connection;
use crate::dedup;
use crate::error::Fault;
use crate::sql::{run, stream};
use crate::writer::Tx;

pub(crate) mod attempt;

statement! {
    FindMessage = "find_message" { scope: AppScope, id: MessageId } -> Option<Message>;
    ListMessage<'a> = ["list_message", MESSAGE_WINDOW] { search: MessageSearch<'a>, event_types: Option<String> }
        -> Vec<Message>;
}

pub(crate) fn find(conn: &Connection, scope: AppScope, locator: &Locator<MessageId>) -> Result<Option<Message>, Fault> {
    let AppScope { environment, application } = scope;
    let id = match locator {
        Locator::Id(id) => *id,
        Locator::Uid(event_id) => match dedup::find(conn, environment, &DedupKey::event_id(application, event_id))? {
            Some(holder) => MessageId(holder.object),
            None => return Ok(None),
        },
    };
    run(conn, FindMessage { scope, id })
}

pub(crate) fn list(conn: &Connection, list: &Messages) -> Result<Piece<Message, MessageId>, Fault> {
    let Messages { scope, filter } = list;
    let (slice, mut range, mut scanned) = (&filter.slice, filter.range(), None);
    if filter.is_selective() {
        let scan = range.scan(filter.scan, slice.order);
        scanned = run(conn, ScanMessage { scope: *scope, scan })?;
        range = range.until(scanned, slice.order);
    }
    let list = ListMessage { search: filter.search(*scope, &range), event_types: names(&filter.event_types) };
    let gather = |rows: &mut dyn Iterator<Item = Result<Message, Fault>>| {
        Piece::gather(rows, slice.limit, message_bytes, |row| row.id, scanned.map(MessageId))
    };
    stream(conn, list, gather)
}

pub(crate) fn expunge(tx: &Tx<'_>, scope: AppScope, id: MessageId) -> Result<bool, Fault> {
    Ok(run(tx.conn, ExpungeMessage { scope, id })? == 1)
}
