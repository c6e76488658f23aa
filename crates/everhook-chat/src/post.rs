//! The request of a chat platform for one message.

use bytes::Bytes;
use everhook_core::chat::{Chat, ChatKind, ChatSecret};
use everhook_core::time::Timestamp;
use url::Url;

use crate::notice::{ChatFacts, ChatText, Rendered, notice};
use crate::payload::payload;
use crate::signature;

/// A request: its URL with a signature, its JSON body, and the failure of a template.
#[derive(Clone, Debug)]
pub struct Post {
    pub url: String,
    pub body: Bytes,
    /// The reason for which the message has the default text instead of its template.
    pub failure: Option<String>,
}

/// Builds the request for a message. `url` is the secret URL of the endpoint.
pub fn post(chat: &Chat, url: &str, facts: &ChatFacts<'_>, now: Timestamp) -> Post {
    let Rendered { notice, failure } = notice(chat, facts);
    Post { failure, ..of_notice(chat, url, &notice, now) }
}

/// Builds the request for a text that exists.
pub fn of_notice(chat: &Chat, url: &str, notice: &ChatText, now: Timestamp) -> Post {
    let Ok(parsed) = Url::parse(url) else {
        return Post { url: url.to_owned(), body: Bytes::new(), failure: None };
    };
    let mut body = payload(chat.kind, &parsed, notice);
    let mut url = parsed;
    if let Some(ChatSecret(secret)) = &chat.secret {
        match chat.kind {
            ChatKind::DingTalk => url = signature::dingtalk(&url, secret, now),
            ChatKind::Feishu | ChatKind::Lark => {
                let (timestamp, sign) = signature::feishu(secret, now);
                if let Some(members) = body.as_object_mut() {
                    members.insert("timestamp".to_owned(), timestamp.into());
                    members.insert("sign".to_owned(), sign.into());
                }
            }
            ChatKind::Slack | ChatKind::Discord | ChatKind::Teams | ChatKind::GoogleChat | ChatKind::WeCom => {}
        }
    }
    Post { url: url.into(), body: Bytes::from(body.to_string()), failure: None }
}
