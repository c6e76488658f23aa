//! The search for a text in payloads. A call reads a bounded number of messages; the iterator of its page goes on.

use everhook_core::id::MessageId;
use everhook_core::limits::{SCAN_PAYLOADS_MAX, SEARCH_TEXT_BYTES_MAX};
use everhook_core::message::Message;
use everhook_core::violation::at;
use everhook_store::history::MessageFilter;
use everhook_store::piece::Piece;
use everhook_store::query::Read;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::error::ApiError;
use crate::state::Api;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct TextParams {
    /// Only messages with this text in their payload, byte for byte and with regard to case. One call searches the next
    /// 1000 messages, or 2000 of all applications. A page can be short or empty although `done` is false; continue with
    /// its `iterator`.
    #[serde(deserialize_with = "crate::query::one")]
    #[param(min_length = 1, max_length = 256)]
    payload_contains: Option<String>,
}

impl TextParams {
    /// Adds the text to a filter.
    pub(crate) fn search(self, filter: MessageFilter) -> Result<MessageFilter, ApiError> {
        match self.payload_contains {
            None => Ok(filter),
            Some(text) if (1..=SEARCH_TEXT_BYTES_MAX).contains(&text.len()) => {
                Ok(MessageFilter { text: Some(text), scan: SCAN_PAYLOADS_MAX, ..filter })
            }
            Some(_) => {
                let rule = format!("must have 1 to {SEARCH_TEXT_BYTES_MAX} bytes");
                Err(ApiError::in_query(at("payload_contains").breaks(rule)))
            }
        }
    }
}

/// Lists messages, of one application or of all. A payload that has expired is not shown, so a search for its text must
/// not find it.
pub(crate) async fn find<R, Q: Read<Answer = Piece<R, MessageId>>>(
    api: &Api,
    filter: MessageFilter,
    query: impl FnOnce(MessageFilter) -> Q,
    message: impl Fn(&R) -> &Message,
) -> Result<Piece<R, MessageId>, ApiError> {
    let (by_text, limit, now) = (filter.text.is_some(), filter.slice.limit, api.now());
    let mut piece = api.read(query(filter)).await?;
    let is_kept = |row: &R| message(row).rest.payload_until.is_none_or(|until| now < until);
    if by_text && !piece.rows.iter().all(is_kept) {
        piece.next = piece.continues_after(limit, |row| message(row).id);
        piece.rows.retain(is_kept);
    }
    Ok(piece)
}
