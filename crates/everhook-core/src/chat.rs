//! Chat endpoints: the platform, the settings of the text, and the URLs that a platform accepts.
//!
//! Pure. The crate `everhook-chat` renders the text and judges replies; this module has the parts that endpoints store.
//! The URL of a chat endpoint is its credential, so every representation shows [`masked`] instead.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use url::{Host, Url};

use crate::limits::{
    CHAT_FIELDS_MAX, CHAT_MENTION_BYTES_MAX, CHAT_MENTIONS_MAX, CHAT_POINTER_BYTES_MAX, CHAT_SECRET_BYTES_MAX,
    CHAT_TEMPLATE_BYTES_MAX, CHAT_TYPES_MAX,
};
use crate::name::Name;
use crate::policy::RateLimit;
use crate::violation::{Violation, at};

/// A chat platform whose incoming webhooks get readable messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChatKind {
    Slack,
    Discord,
    /// Workflows of Power Automate, and the older connectors of Office 365. The host decides.
    Teams,
    GoogleChat,
    Feishu,
    Lark,
    #[serde(rename = "dingtalk")]
    DingTalk,
    #[serde(rename = "wecom")]
    WeCom,
}

/// The form of a message to Microsoft Teams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TeamsForm {
    /// A message card, for connectors.
    Connector,
    /// An adaptive card, for workflows.
    Workflow,
}

/// The settings of a chat endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Chat {
    pub kind: ChatKind,
    /// The secret of a signed webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<ChatSecret>,
    #[serde(default)]
    pub language: Language,
    /// The text of all event types without a template of their own.
    #[serde(default, skip_serializing_if = "Template::is_empty")]
    pub template: Template,
    /// Templates of single event types. A missing member is taken from `template`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub event_types: BTreeMap<Name, Template>,
    /// A JSON pointer to the addresses of people in the payload, who get the message instead of the room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub people: Option<String>,
}

/// The secret of a signed webhook. Its `Debug` hides it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatSecret(pub String);

impl fmt::Debug for ChatSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChatSecret(redacted)")
    }
}

/// The language of default titles and labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Language {
    #[default]
    En,
    Zh,
}

/// The importance of a message, shown as a colour and an emoji.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ChatLevel {
    #[default]
    Info,
    Success,
    Warning,
    Error,
}

impl ChatLevel {
    pub const ALL: [ChatLevel; 4] = [ChatLevel::Info, ChatLevel::Success, ChatLevel::Warning, ChatLevel::Error];

    pub const fn as_str(self) -> &'static str {
        match self {
            ChatLevel::Info => "info",
            ChatLevel::Success => "success",
            ChatLevel::Warning => "warning",
            ChatLevel::Error => "error",
        }
    }

    pub fn find(text: &str) -> Option<ChatLevel> {
        ChatLevel::ALL.into_iter().find(|level| level.as_str().eq_ignore_ascii_case(text.trim()))
    }
}

/// The parts of a message. Each text is a template; a missing part has a default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object with templates")]
pub struct Template {
    /// Renders to `info`, `success`, `warning` or `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// May contain the markup of the platform; values in it are escaped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<Vec<FieldTemplate>>,
    /// Renders to an absolute URL. Another text leaves the message without a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// People to mention. These are not templates, so that no payload can mention a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mentions: Option<Vec<String>>,
}

/// A labelled value below the description.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldTemplate {
    pub name: String,
    pub value: String,
}

/// The mention of everybody in a room.
pub const MENTION_ALL: &str = "all";

impl Template {
    pub fn is_empty(&self) -> bool {
        *self == Template::default()
    }

    /// Returns the templates with their paths.
    pub fn texts(&self) -> impl Iterator<Item = (crate::violation::Field, &str)> {
        let parts =
            [("level", &self.level), ("title", &self.title), ("description", &self.description), ("link", &self.link)];
        let parts = parts.into_iter().filter_map(|(name, text)| Some((at(name), text.as_deref()?)));
        let fields = self.fields.iter().flatten().enumerate().flat_map(|(index, field)| {
            let place = move |name| at("fields").index(index).member(name);
            [(place("name"), field.name.as_str()), (place("value"), field.value.as_str())]
        });
        parts.chain(fields)
    }

    fn check(&self, kind: ChatKind) -> Result<(), Violation> {
        for (place, text) in self.texts() {
            if text.len() > CHAT_TEMPLATE_BYTES_MAX {
                return Err(place.breaks(format!("must have at most {CHAT_TEMPLATE_BYTES_MAX} bytes")));
            }
        }
        if self.fields.as_ref().is_some_and(|fields| fields.len() > CHAT_FIELDS_MAX) {
            return Err(at("fields").breaks(format!("must have at most {CHAT_FIELDS_MAX} entries")));
        }
        let mentions = self.mentions.as_deref().unwrap_or_default();
        if mentions.len() > CHAT_MENTIONS_MAX {
            return Err(at("mentions").breaks(format!("must have at most {CHAT_MENTIONS_MAX} entries")));
        }
        for (index, mention) in mentions.iter().enumerate() {
            at("mentions").index(index).check(kind.check_mention(mention))?;
        }
        Ok(())
    }
}

impl Chat {
    pub fn new(kind: ChatKind) -> Chat {
        Chat {
            kind,
            secret: None,
            language: Language::default(),
            template: Template::default(),
            event_types: BTreeMap::new(),
            people: None,
        }
    }

    /// Checks all values except the syntax of templates; the violation names the field.
    pub fn check(&self, url: &Url) -> Result<(), Violation> {
        if let Some(ChatSecret(secret)) = &self.secret {
            if !self.kind.is_signed() {
                return Err(at("secret").breaks("is only for dingtalk, feishu and lark"));
            }
            let is_printable = secret.bytes().all(|byte| byte.is_ascii_graphic());
            if secret.is_empty() || secret.len() > CHAT_SECRET_BYTES_MAX || !is_printable {
                return Err(at("secret").breaks(format!("must have 1 to {CHAT_SECRET_BYTES_MAX} ASCII characters")));
            }
        }
        if let Some(pointer) = &self.people {
            if self.kind.app_needs().is_none() {
                return Err(at("people").breaks(format!("is not for {}, which has no direct messages here", self.kind)));
            }
            if !pointer.starts_with('/') || pointer.len() > CHAT_POINTER_BYTES_MAX {
                let rule =
                    format!("must be a JSON pointer such as /owner/email of at most {CHAT_POINTER_BYTES_MAX} bytes");
                return Err(at("people").breaks(rule));
            }
        }
        if self.event_types.len() > CHAT_TYPES_MAX {
            return Err(at("eventTypes").breaks(format!("must have at most {CHAT_TYPES_MAX} entries")));
        }
        let own = self.event_types.iter().map(|(name, template)| (at("eventTypes").member(name.to_string()), template));
        for (place, template) in own.chain([(at("template"), &self.template)]) {
            let mentions = template.mentions.as_ref().is_some_and(|mentions| !mentions.is_empty());
            if mentions && self.kind == ChatKind::Teams && teams_form(url) == TeamsForm::Connector {
                return Err(place.member("mentions").breaks("need a workflow URL: connectors have no mentions"));
            }
            template.check(self.kind).map_err(|violation| violation.under(place))?;
        }
        Ok(())
    }

    /// Returns the approximate memory of the settings.
    pub fn size(&self) -> usize {
        let texts = |template: &Template| template.texts().map(|(_, text)| text.len()).sum::<usize>();
        let own = self.event_types.values().map(|template| size_of::<Template>() + texts(template));
        let people = self.people.as_ref().map_or(0, String::len);
        size_of::<Chat>() + texts(&self.template) + own.sum::<usize>() + people
    }

    /// Returns the members of `own`, completed by the general template.
    pub fn template_of(&self, event_type: &Name) -> Template {
        let (own, all) = (self.event_types.get(event_type).cloned().unwrap_or_default(), &self.template);
        Template {
            level: own.level.or_else(|| all.level.clone()),
            title: own.title.or_else(|| all.title.clone()),
            description: own.description.or_else(|| all.description.clone()),
            fields: own.fields.or_else(|| all.fields.clone()),
            link: own.link.or_else(|| all.link.clone()),
            mentions: own.mentions.or_else(|| all.mentions.clone()),
        }
    }
}

impl ChatKind {
    pub const ALL: [ChatKind; 8] = [
        ChatKind::Slack,
        ChatKind::Discord,
        ChatKind::Teams,
        ChatKind::GoogleChat,
        ChatKind::Feishu,
        ChatKind::Lark,
        ChatKind::DingTalk,
        ChatKind::WeCom,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            ChatKind::Slack => "slack",
            ChatKind::Discord => "discord",
            ChatKind::Teams => "teams",
            ChatKind::GoogleChat => "google-chat",
            ChatKind::Feishu => "feishu",
            ChatKind::Lark => "lark",
            ChatKind::DingTalk => "dingtalk",
            ChatKind::WeCom => "wecom",
        }
    }

    pub fn find(text: &str) -> Option<ChatKind> {
        ChatKind::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// Whether the platform has signed webhooks.
    pub const fn is_signed(self) -> bool {
        matches!(self, ChatKind::DingTalk | ChatKind::Feishu | ChatKind::Lark)
    }

    /// The hosts of the platform's webhooks. A name that starts with a dot stands for all its subdomains.
    pub const fn hosts(self) -> &'static [&'static str] {
        match self {
            ChatKind::Slack => &["hooks.slack.com", "hooks.slack-gov.com"],
            ChatKind::Discord => &["discord.com", "discordapp.com"],
            ChatKind::Teams => &[".powerplatform.com", ".logic.azure.com", ".office.com", ".office365.com"],
            ChatKind::GoogleChat => &["chat.googleapis.com"],
            ChatKind::Feishu => &["open.feishu.cn"],
            ChatKind::Lark => &["open.larksuite.com"],
            ChatKind::DingTalk => &["oapi.dingtalk.com", "api.dingtalk.com"],
            ChatKind::WeCom => &["qyapi.weixin.qq.com"],
        }
    }

    /// The default rate of an endpoint, which the platform documents.
    pub const fn rate(self) -> RateLimit {
        match self {
            ChatKind::Slack | ChatKind::GoogleChat => RateLimit { count: 1, seconds: 1 },
            ChatKind::Discord => RateLimit { count: 5, seconds: 2 },
            ChatKind::Teams => RateLimit { count: 4, seconds: 1 },
            ChatKind::Feishu | ChatKind::Lark => RateLimit { count: 5, seconds: 1 },
            ChatKind::DingTalk | ChatKind::WeCom => RateLimit { count: 20, seconds: 60 },
        }
    }

    /// Checks a URL that the egress rules accept. `more` are further hosts, for private clouds and tests.
    pub fn check_url(self, url: &Url, more: &[String]) -> Result<(), String> {
        let host = url.host_str().unwrap_or_default().trim_end_matches('.');
        if more.iter().any(|allowed| is_host(host, allowed)) {
            return Ok(());
        }
        let hosts = self.hosts();
        if !matches!(url.host(), Some(Host::Domain(_))) || !hosts.iter().any(|allowed| is_host(host, allowed)) {
            let names = hosts.join(", ");
            return Err(format!("must have a host of {self} ({names}): set EVERHOOK_CHAT_HOSTS to allow others"));
        }
        if url.scheme() != "https" || url.port().is_some() {
            return Err("must be an https URL without a port".to_owned());
        }
        let path = url.path();
        let is_room = path.starts_with("/v1/spaces/") && path.ends_with("/messages");
        if self == ChatKind::GoogleChat && !is_room {
            return Err("must have a path /v1/spaces/…/messages".to_owned());
        }
        Ok(())
    }

    /// Checks the id of a person, a group or everybody.
    fn check_mention(self, mention: &str) -> Result<(), String> {
        let is_id = |text: &str| {
            let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'@');
            !text.is_empty() && text.len() <= CHAT_MENTION_BYTES_MAX && text.bytes().all(legal)
        };
        let is_number = |text: &str| is_id(text) && text.bytes().all(|byte| byte.is_ascii_digit());
        let (is_valid, rule) = match self {
            ChatKind::Slack => (
                matches!(mention, MENTION_ALL | "here") || (is_id(mention) && mention.starts_with(['U', 'W', 'S'])),
                "must be \"all\", \"here\" or the id of a member (U…, W…) or a user group (S…)",
            ),
            ChatKind::Discord => (
                mention == MENTION_ALL || is_number(mention.strip_prefix("role:").unwrap_or(mention)),
                "must be \"all\", the number of a user, or role: and the number of a role",
            ),
            ChatKind::Teams => (is_id(mention) && mention.contains('@'), "must be the e-mail address of a user"),
            ChatKind::WeCom => (is_id(mention) && mention != MENTION_ALL, "must be the id of a user"),
            ChatKind::GoogleChat | ChatKind::Feishu | ChatKind::Lark | ChatKind::DingTalk => {
                (is_id(mention), "must be \"all\" or the id of a user")
            }
        };
        if is_valid { Ok(()) } else { Err(rule.to_owned()) }
    }
}

impl fmt::Display for ChatKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Returns the form of messages to this URL. Unknown hosts get the form of workflows, which replace connectors.
pub fn teams_form(url: &Url) -> TeamsForm {
    let host = url.host_str().unwrap_or_default();
    if host.ends_with(".office.com") || host.ends_with(".office365.com") {
        TeamsForm::Connector
    } else {
        TeamsForm::Workflow
    }
}

/// Returns the URL without the parts that are a credential.
pub fn masked(url: &str) -> String {
    let host = Url::parse(url).ok().and_then(|url| {
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        Some(format!("{}://{}{port}", url.scheme(), url.host_str()?))
    });
    format!("{}/***", host.unwrap_or_else(|| "https://invalid".to_owned()))
}

pub(crate) fn is_host(host: &str, allowed: &str) -> bool {
    let host = host.to_ascii_lowercase();
    if allowed.starts_with('.') { host.ends_with(allowed) } else { host == allowed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: ChatKind, url: &str, want: bool) {
        let url = Url::parse(url).unwrap();
        assert_eq!(kind.check_url(&url, &["chat.internal".to_owned()]).is_ok(), want, "{url}");
    }

    #[test]
    fn a_kind_accepts_its_own_hosts_alone() {
        check(ChatKind::Slack, "https://hooks.slack.com/services/T0/B0/x", true);
        check(ChatKind::Slack, "https://HOOKS.slack.com./services/T0/B0/x", true);
        check(ChatKind::Slack, "https://hooks.slack.com.evil.example/services", false);
        check(ChatKind::Slack, "https://evilhooks.slack.com/services", false);
        check(ChatKind::Slack, "https://discord.com/api/webhooks/1/x", false);
        check(ChatKind::Slack, "http://hooks.slack.com/services/T0/B0/x", false);
        check(ChatKind::Slack, "https://hooks.slack.com:8443/services/T0/B0/x", false);
        check(ChatKind::Slack, "http://chat.internal:8080/hook", true);
        check(ChatKind::Teams, "https://acme.webhook.office.com/webhookb2/x", true);
        check(ChatKind::Teams, "https://prod-1.westus.logic.azure.com/workflows/x", true);
        check(ChatKind::Teams, "https://office.com/x", false);
        check(ChatKind::GoogleChat, "https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=t", true);
        check(ChatKind::GoogleChat, "https://chat.googleapis.com/v1/media/x", false);
        check(ChatKind::DingTalk, "https://10.0.0.1/robot/send", false);
    }

    #[test]
    fn a_shown_url_has_no_credential() {
        assert_eq!(masked("https://hooks.slack.com/services/T0/B0/x"), "https://hooks.slack.com/***");
        assert_eq!(masked("http://127.0.0.1:80/a?key=b#c"), "http://127.0.0.1/***");
        assert_eq!(masked("http://127.0.0.1:8080/a?key=b#c"), "http://127.0.0.1:8080/***");
        assert_eq!(masked("nonsense"), "https://invalid/***");
        assert_eq!(format!("{:?}", ChatSecret("hush".to_owned())), "ChatSecret(redacted)");
    }

    #[test]
    fn bad_settings_are_named() {
        let url = Url::parse("https://acme.webhook.office.com/x").unwrap();
        let check = |json: &str| {
            let chat: Chat = serde_json::from_str(json).unwrap();
            chat.check(&url).map_err(|violation| violation.to_string()).err().unwrap_or_default()
        };
        assert_eq!(check(r#"{"kind": "slack", "secret": "x"}"#), "secret is only for dingtalk, feishu and lark");
        assert_eq!(
            check(r#"{"kind": "slack", "eventTypes": {"a.b": {"mentions": ["<!all>"]}}}"#),
            "eventTypes.a.b.mentions[0] must be \"all\", \"here\" or the id of a member (U…, W…) or a user group (S…)"
        );
        assert_eq!(
            check(r#"{"kind": "teams", "template": {"mentions": ["a@b.c"]}}"#),
            "template.mentions need a workflow URL: connectors have no mentions"
        );
        assert_eq!(check(r#"{"kind": "wecom", "template": {"mentions": ["zhang"], "title": "x"}}"#), "");
        assert!(!check(r#"{"kind": "wecom", "template": {"mentions": ["all"]}}"#).is_empty());
    }

    #[test]
    fn a_kind_is_found_by_its_name() {
        for kind in ChatKind::ALL {
            assert_eq!(ChatKind::find(kind.as_str()), Some(kind));
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("{:?}", kind.as_str()));
        }
    }
}
