//! Messages and their destinations. Attempts have a file of their own.

use everhook_core::id::{ApplicationId, EnvironmentId, MessageId};
use everhook_core::limits::PAGE_BYTES_MAX;
use everhook_core::message::Message;
use everhook_core::name::Name;
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Locator, Order};
use everhook_store::dedup::DedupKey;
use everhook_store::history::{MessageFilter, message_bytes};
use everhook_store::piece::{Piece, after, before, skipped};
use everhook_store::sql::shared::{ExpungeMessage, ScanMessage};
use everhook_store::statement;

use crate::dedup;
use crate::error::Fault;
use crate::lease::{FindMessage, MessageKey};
use crate::store::PostgresStore;

pub(crate) mod attempt;

statement! {
    ListMessage<'a> = "list_message" {
        environment: EnvironmentId, application: ApplicationId, above: &'a [u8], below: &'a [u8], before: Timestamp,
        after: Timestamp, channel: Option<&'a str>, tag: Option<&'a str>, event_types: Option<Vec<&'a str>>,
        text: Option<&'a [u8]>, limit: usize, bytes_max: usize, order: Order,
    } -> Vec<(EnvironmentId, Message)>;
}

impl PostgresStore {
    pub(crate) async fn find_message_once(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        locator: &Locator<MessageId>,
    ) -> Result<Option<Message>, Fault> {
        let id = match locator {
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

    pub(crate) async fn list_messages_once(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        filter: &MessageFilter,
    ) -> Result<Piece<Message, MessageId>, Fault> {
        let (slice, mut range, mut scanned) = (&filter.slice, filter.range(), None);
        if filter.is_selective() {
            let (above, below) = (range.above.as_slice(), range.below.as_slice());
            let (skipped, order) = (skipped(filter.scan), slice.order);
            scanned =
                self.database.read(ScanMessage { environment, application, above, below, skipped, order }).await?;
            range = scanned.map_or(range.clone(), |last| range.until(last, slice.order));
        }
        let list = ListMessage {
            environment,
            application,
            above: &range.above,
            below: &range.below,
            before: before(filter.before),
            after: after(filter.after),
            channel: text(filter.channel.as_ref()),
            tag: text(filter.tag.as_ref()),
            event_types: texts(&filter.event_types),
            text: filter.text.as_ref().map(|text| text.as_bytes()),
            limit: slice.limit,
            bytes_max: PAGE_BYTES_MAX,
            order: slice.order,
        };
        let found = self.database.read(list).await?.into_iter().map(|(_, message)| Ok(message));
        Piece::gather(found, slice.limit, message_bytes, |row| row.id, scanned.map(MessageId))
    }

    pub(crate) async fn expunge_message_once(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        id: MessageId,
    ) -> Result<bool, Fault> {
        let expunged = self.database.write(ExpungeMessage { environment, application, id }).await?;
        Ok(expunged > 0)
    }
}

pub(crate) fn text(name: Option<&Name>) -> Option<&str> {
    name.map(Name::as_str)
}

pub(crate) fn texts(names: &[Name]) -> Option<Vec<&str>> {
    (!names.is_empty()).then(|| names.iter().map(Name::as_str).collect())
}
