//! Messages and their destinations. Attempts have a file of their own.

use everhook_core::id::{ApplicationId, EnvironmentId, MessageId};
use everhook_core::limits::PAGE_BYTES_MAX;
use everhook_core::message::Message;
use everhook_core::name::Name;
use everhook_core::scope::AppScope;
use everhook_store::catalog::Locator;
use everhook_store::dedup::DedupKey;
use everhook_store::history::{MessageSearch, message_bytes};
use everhook_store::piece::Piece;
use everhook_store::query::{self, Messages};
use everhook_store::sql::shared::{ExpungeMessage, MESSAGE_WINDOW, ScanMessage};
use everhook_store::statement;

use crate::dedup;
use crate::error::Fault;
use crate::lease::{FindMessage, MessageKey};
use crate::store::PostgresStore;

pub(crate) mod attempt;

statement! {
    ListMessage<'a> = ["list_message", MESSAGE_WINDOW] {
        search: MessageSearch<'a>, event_types: Option<Vec<&'a str>>, bytes_max: usize,
    } -> Vec<(EnvironmentId, Message)>;
}

impl PostgresStore {
    pub(crate) async fn find_message_once(&self, find: &query::FindMessage) -> Result<Option<Message>, Fault> {
        let AppScope { environment, application } = find.scope;
        let id = match &find.locator {
            Locator::Id(id) => *id,
            Locator::Uid(event_id) => match self.find_event(environment, application, event_id).await? {
                Some(id) => id,
                None => return Ok(None),
            },
        };
        let wanted = [MessageKey { environment, application, id }].into_iter().collect();
        Ok(self.database.read(FindMessage { wanted }).await?.pop().map(|(_, message)| message))
    }

    /// Finds the message of an event id.
    async fn find_event(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        event_id: &Name,
    ) -> Result<Option<MessageId>, Fault> {
        let key = DedupKey::event_id(application, event_id);
        Ok(dedup::find(&self.database, environment, &key).await?.map(MessageId))
    }

    pub(crate) async fn list_messages_once(&self, list: &Messages) -> Result<Piece<Message, MessageId>, Fault> {
        let Messages { scope, filter } = list;
        let (slice, mut range, mut scanned) = (&filter.slice, filter.range(), None);
        if filter.is_selective() {
            let scan = range.scan(filter.scan, slice.order);
            scanned = self.database.read(ScanMessage { scope: *scope, scan }).await?;
            range = range.until(scanned, slice.order);
        }
        let (search, event_types) = (filter.search(*scope, &range), texts(&filter.event_types));
        let list = ListMessage { search, event_types, bytes_max: PAGE_BYTES_MAX };
        let found = self.database.read(list).await?.into_iter().map(|(_, message)| Ok(message));
        Piece::gather(found, slice.limit, message_bytes, |row| row.id, scanned.map(MessageId))
    }

    pub(crate) async fn expunge_message_once(&self, scope: AppScope, id: MessageId) -> Result<bool, Fault> {
        let expunged = self.database.write(ExpungeMessage { scope, id }).await?;
        Ok(expunged > 0)
    }
}

pub(crate) fn texts(names: &[Name]) -> Option<Vec<&str>> {
    (!names.is_empty()).then(|| names.iter().map(Name::as_str).collect())
}
