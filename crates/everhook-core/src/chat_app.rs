//! Credentials of an environment for direct messages: one app for each chat platform.
//!
//! Pure. The crate `everhook-chat` holds the conversation with the platform; this module has the stored credentials.

use std::fmt;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::chat::{ChatKind, ChatSecret};
use crate::id::Id;
use crate::limits::CHAT_APP_TEXT_BYTES_MAX;
use crate::time::Timestamp;
use crate::violation::{Violation, at};

/// The credentials of one app. Each platform needs other members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChatApp {
    pub kind: ChatKind,
    /// The id of the app: `cli_…` for Feishu and Lark, the corp id for WeCom, the app key for DingTalk, the bot's app
    /// id for Teams. Slack has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// The secret of the app; for Slack the token of its bot.
    pub secret: ChatSecret,
    /// The directory of the organisation, for Teams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    /// The number of the app within the organisation, for WeCom and DingTalk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<u64>,
    /// Replaces the address of the platform's API, for private clouds and tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_url: Option<String>,
}

/// The apps of an environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChatApps {
    /// At most one for each kind.
    pub apps: Vec<ChatApp>,
    pub updated_at: Timestamp,
    /// Raised by every change; 0 without apps.
    pub revision: i64,
}

impl ChatApps {
    pub fn of(&self, kind: ChatKind) -> Option<&ChatApp> {
        self.apps.iter().find(|app| app.kind == kind)
    }

    /// Adds an app, or replaces the app of its kind.
    pub fn put(&mut self, app: ChatApp) {
        self.remove(app.kind);
        self.apps.push(app);
        self.apps.sort_by_key(|app| app.kind.as_str());
    }

    /// Returns whether there was an app.
    pub fn remove(&mut self, kind: ChatKind) -> bool {
        let before = self.apps.len();
        self.apps.retain(|app| app.kind != kind);
        self.apps.len() < before
    }
}

impl ChatApp {
    /// Identifies the app with its secret, as the key of its tokens and of the people that it found.
    pub fn id(&self) -> Id {
        let text = serde_json::to_vec(self).expect("texts can be written as JSON");
        Id::derived(&[b"chat app", &text])
    }

    /// Checks all values; the violation names the field. `more` are further hosts, for private clouds and tests.
    pub fn check(&self, more: &[String]) -> Result<(), Violation> {
        let kind = self.kind;
        let needs = kind.app_needs().ok_or_else(|| at("kind").breaks(format!("{kind} has no direct messages")))?;
        let text = |field: &'static str, text: &str| {
            let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
            if is_plain && text.len() <= CHAT_APP_TEXT_BYTES_MAX {
                return Ok(());
            }
            Err(at(field).breaks(format!("must have 1 to {CHAT_APP_TEXT_BYTES_MAX} ASCII characters, and no space")))
        };
        text("secret", &self.secret.0)?;
        let members = [
            ("clientId", self.client_id.is_some(), needs.client_id),
            ("tenantId", self.tenant_id.is_some(), needs.tenant_id),
            ("agentId", self.agent_id.is_some(), needs.agent_id),
        ];
        for (field, is_given, is_needed) in members {
            match (is_given, is_needed) {
                (false, true) => return Err(at(field).breaks(format!("is required for {kind}"))),
                (true, false) => return Err(at(field).breaks(format!("is not a member of an app of {kind}"))),
                (true, true) | (false, false) => {}
            }
        }
        for (field, value) in [("clientId", &self.client_id), ("tenantId", &self.tenant_id)] {
            if let Some(value) = value {
                text(field, value)?;
            }
        }
        // A tenant is part of a path.
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
        if self.tenant_id.as_ref().is_some_and(|tenant| !tenant.bytes().all(is_name)) {
            return Err(at("tenantId").breaks("must have letters, digits, - and . alone"));
        }
        if let Some(url) = &self.api_url {
            check_api_url(url, more)?;
        }
        Ok(())
    }
}

/// Only hosts that the operator allows may get the secret of an app.
fn check_api_url(url: &str, more: &[String]) -> Result<(), Violation> {
    let parsed: Url = at("apiUrl").check(url.parse())?;
    let host = parsed.host_str().unwrap_or_default();
    if !more.iter().any(|allowed| crate::chat::is_host(host, allowed)) {
        return Err(at("apiUrl").breaks("must have a host that the setting EVERHOOK_CHAT_HOSTS names"));
    }
    let is_base = matches!(parsed.scheme(), "https" | "http")
        && parsed.query().is_none()
        && parsed.fragment().is_none()
        && parsed.username().is_empty()
        && parsed.password().is_none();
    if is_base && url.len() <= CHAT_APP_TEXT_BYTES_MAX {
        return Ok(());
    }
    Err(at("apiUrl").breaks("must be an http or https URL without credentials, query and fragment"))
}

/// The members that an app of a platform has besides its secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppNeeds {
    pub client_id: bool,
    pub tenant_id: bool,
    pub agent_id: bool,
}

impl ChatKind {
    /// The members of an app; none if the platform has no direct messages here.
    pub const fn app_needs(self) -> Option<AppNeeds> {
        let [client_id, tenant_id, agent_id] = match self {
            ChatKind::Slack => [false, false, false],
            ChatKind::Teams => [true, true, false],
            ChatKind::Feishu | ChatKind::Lark => [true, false, false],
            ChatKind::WeCom | ChatKind::DingTalk => [true, false, true],
            ChatKind::Discord | ChatKind::GoogleChat => return None,
        };
        Some(AppNeeds { client_id, tenant_id, agent_id })
    }
}

/// The address of a person: an e-mail address, or a phone number for DingTalk.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PersonAddress(String);

impl PersonAddress {
    /// Reads an address in the form that the platform looks up. `Err` is a reason for people.
    pub fn read(kind: ChatKind, text: &str) -> Result<PersonAddress, &'static str> {
        let text = text.trim();
        if kind == ChatKind::DingTalk {
            let number = text.strip_prefix('+').unwrap_or(text);
            let is_number = (5..=20).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
            return if is_number { Ok(PersonAddress(text.to_owned())) } else { Err("is not a phone number") };
        }
        let is_plain = text.len() <= 254 && text.bytes().all(|byte| byte.is_ascii_graphic());
        let is_address = text.split_once('@').is_some_and(|(name, host)| {
            !name.is_empty() && !host.is_empty() && !host.contains('@') && !text.contains(['<', '>', '"', '|'])
        });
        if is_plain && is_address {
            Ok(PersonAddress(text.to_ascii_lowercase()))
        } else {
            Err("is not an e-mail address")
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PersonAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, want: &str) {
        let app: ChatApp = serde_json::from_str(json).unwrap();
        let got = app.check(&["chat.internal".to_owned()]);
        assert_eq!(got.map_err(|violation| violation.to_string()).err().unwrap_or_default(), want, "{json}");
    }

    #[test]
    fn an_app_has_the_members_of_its_platform() {
        check(r#"{"kind": "slack", "secret": "xoxb-1"}"#, "");
        check(
            r#"{"kind": "slack", "secret": "xoxb-1", "clientId": "a"}"#,
            "clientId is not a member of an app of slack",
        );
        check(r#"{"kind": "feishu", "secret": "s", "clientId": "cli_1"}"#, "");
        check(r#"{"kind": "lark", "secret": "s"}"#, "clientId is required for lark");
        check(r#"{"kind": "wecom", "secret": "s", "clientId": "ww1"}"#, "agentId is required for wecom");
        check(r#"{"kind": "dingtalk", "secret": "s", "clientId": "d", "agentId": 7}"#, "");
        check(r#"{"kind": "teams", "secret": "s", "clientId": "d"}"#, "tenantId is required for teams");
        check(
            r#"{"kind": "teams", "secret": "s", "clientId": "d", "tenantId": "../x"}"#,
            "tenantId must have letters, digits, - and . alone",
        );
        check(r#"{"kind": "discord", "secret": "s"}"#, "kind discord has no direct messages");
        check(r#"{"kind": "slack", "secret": "a b"}"#, "secret must have 1 to 512 ASCII characters, and no space");
    }

    #[test]
    fn a_secret_goes_to_allowed_hosts_alone() {
        check(r#"{"kind": "slack", "secret": "s", "apiUrl": "http://chat.internal:80/x"}"#, "");
        let refused = "apiUrl must have a host that the setting EVERHOOK_CHAT_HOSTS names";
        check(r#"{"kind": "slack", "secret": "s", "apiUrl": "https://evil.example/"}"#, refused);
        let form = "apiUrl must be an http or https URL without credentials, query and fragment";
        check(r#"{"kind": "slack", "secret": "s", "apiUrl": "http://a:b@chat.internal/"}"#, form);
        check(r#"{"kind": "slack", "secret": "s", "apiUrl": "http://chat.internal/?a=b"}"#, form);
    }

    #[test]
    fn an_address_is_one_that_the_platform_can_look_up() {
        let read = |kind, text| PersonAddress::read(kind, text).map(|address| address.to_string());
        assert_eq!(read(ChatKind::Slack, " Ann@Example.com "), Ok("ann@example.com".to_owned()));
        for text in ["", "ann", "@x", "a@", "a@b@c", "a b@c", "<a@b>", "a@b|c", "a@b\u{7}"] {
            assert!(read(ChatKind::Slack, text).is_err(), "{text}");
        }
        assert_eq!(read(ChatKind::DingTalk, "+8613800138000"), Ok("+8613800138000".to_owned()));
        assert!(read(ChatKind::DingTalk, "ann@example.com").is_err());
    }

    #[test]
    fn an_environment_has_one_app_of_a_kind() {
        let app = |kind, secret: &str| ChatApp {
            kind,
            client_id: None,
            secret: ChatSecret(secret.to_owned()),
            tenant_id: None,
            agent_id: None,
            api_url: None,
        };
        let mut apps = ChatApps::default();
        apps.put(app(ChatKind::Slack, "old"));
        apps.put(app(ChatKind::Lark, "x"));
        apps.put(app(ChatKind::Slack, "new"));
        assert_eq!(apps.apps.len(), 2);
        assert_eq!(apps.of(ChatKind::Slack).unwrap().secret.0, "new");
        assert_ne!(app(ChatKind::Slack, "old").id(), app(ChatKind::Slack, "new").id());
        assert!(apps.remove(ChatKind::Slack) && !apps.remove(ChatKind::Slack));
        assert!(!format!("{apps:?}").contains("\"x\""));
    }
}
