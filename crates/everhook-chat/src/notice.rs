//! The neutral text of a message: level, title, description, fields, link and mentions.
//!
//! A template gives the parts. The default shows any JSON payload readably, and replaces a template that fails.

use everhook_core::chat::{Chat, ChatLevel, Language, Template};
use everhook_core::limits::CHAT_FIELDS_MAX;
use everhook_core::message::Message;
use everhook_core::name::Name;
use everhook_core::operational::OPERATIONAL_APPLICATION;
use minijinja::value::Value as TemplateValue;
use serde_json::{Map, Value};
use url::Url;

use crate::escape::{Markup, cut, escape, one_line};
use crate::limits::NESTED_CHARS_MAX;
use crate::template::{readable, render};

/// The text of one message, escaped for one platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatText {
    pub level: ChatLevel,
    /// One line without markup.
    pub title: String,
    /// In the markup of the platform.
    pub description: String,
    pub fields: Vec<ChatTextField>,
    pub link: Option<String>,
    pub mentions: Vec<String>,
    pub language: Language,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatTextField {
    /// One line without markup.
    pub name: String,
    /// In the markup of the platform.
    pub value: String,
}

/// The content of a message, as templates see it.
#[derive(Clone, Copy, Debug)]
pub struct ChatFacts<'a> {
    pub message: &'a Message,
    pub payload: &'a [u8],
    /// The beginning of links to the dashboard.
    pub public_url: Option<&'a str>,
}

/// A notice, and the reason for which it has the default text instead of its template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    pub notice: ChatText,
    pub failure: Option<String>,
}

/// Members of a payload that give the title and the description, if they are texts.
const TITLES: [&str; 3] = ["title", "subject", "summary"];
const DESCRIPTIONS: [&str; 4] = ["description", "message", "text", "body"];

/// Renders the text of a message for an endpoint.
pub fn notice(chat: &Chat, facts: &ChatFacts<'_>) -> Rendered {
    let markup = Markup::of(chat.kind);
    let payload = serde_json::from_slice::<Value>(facts.payload)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(facts.payload).into_owned()));
    let template = chat.template_of(&facts.message.event_type);
    let mut default = standard(&payload, facts, chat.language, markup);
    default.mentions = template.mentions.clone().unwrap_or_default();
    match filled(&template, &default, &payload, facts, markup) {
        Ok(notice) => Rendered { notice, failure: None },
        Err(failure) => Rendered { notice: default, failure: Some(failure) },
    }
}

fn filled(
    template: &Template,
    default: &ChatText,
    payload: &Value,
    facts: &ChatFacts<'_>,
    markup: Markup,
) -> Result<ChatText, String> {
    let context = context(default, payload, facts);
    let part = |name: &str, text: &Option<String>, markup| {
        let text =
            text.as_deref().map(|text| render(text, &context, markup).map_err(|error| format!("{name}: {error}")));
        text.transpose()
    };
    let level = match part("level", &template.level, Markup::Plain)? {
        Some(text) => ChatLevel::find(&text).ok_or("level: must be info, success, warning or error")?,
        None => default.level,
    };
    let title = part("title", &template.title, Markup::Plain)?.map(|title| one_line(&title));
    let description = part("description", &template.description, markup)?;
    let link = part("link", &template.link, Markup::Plain)?;
    let fields = template.fields.as_ref().map(|fields| {
        let field = |field: &everhook_core::chat::FieldTemplate| {
            let name = render(&field.name, &context, Markup::Plain).map_err(|error| format!("fields: {error}"))?;
            let value = render(&field.value, &context, markup).map_err(|error| format!("fields: {error}"))?;
            Ok(ChatTextField { name: one_line(&name), value: value.trim().to_owned() })
        };
        fields.iter().map(field).collect::<Result<Vec<ChatTextField>, String>>()
    });
    Ok(ChatText {
        level,
        title: title.filter(|title| !title.is_empty()).unwrap_or_else(|| default.title.clone()),
        // A template replaces the default text as a whole: a description without fields has no default fields.
        description: description.unwrap_or_else(|| default.description.clone()).trim().to_owned(),
        fields: match fields.transpose()? {
            Some(fields) => fields.into_iter().filter(|field| !field.value.is_empty()).collect(),
            None if template.description.is_some() => Vec::new(),
            None => default.fields.clone(),
        },
        link: match link {
            Some(text) => web_link(text.trim()),
            None => default.link.clone(),
        },
        mentions: default.mentions.clone(),
        language: default.language,
    })
}

fn context(default: &ChatText, payload: &Value, facts: &ChatFacts<'_>) -> TemplateValue {
    let message = facts.message;
    let names = |names: &[Name]| names.iter().map(Name::to_string).collect::<Vec<_>>();
    minijinja::context! {
        payload => readable(payload),
        eventType => message.event_type.as_str(),
        eventId => message.event_id.as_ref().map(Name::as_str),
        channels => names(&message.channels),
        tags => names(&message.tags),
        messageId => message.id.to_string(),
        applicationId => message.application.to_string(),
        createdAt => message.created_at.to_string(),
        publicUrl => facts.public_url,
        level => default.level.as_str(),
        title => default.title.as_str(),
    }
}

/// Returns the text of a message without a template.
fn standard(payload: &Value, facts: &ChatFacts<'_>, language: Language, markup: Markup) -> ChatText {
    let event_type = facts.message.event_type.as_str();
    let empty = Map::new();
    let outer = payload.as_object();
    // Many payloads, also those of operational events, have their content in `data`.
    let content = outer.and_then(|outer| outer.get("data")).and_then(Value::as_object).or(outer).unwrap_or(&empty);
    let text_of = |names: &[&'static str]| {
        let found = names.iter().find_map(|name| Some((*name, content.get(*name)?.as_str()?)));
        found.filter(|(_, text)| !text.trim().is_empty())
    };
    let level = content.get("level").and_then(Value::as_str).and_then(ChatLevel::find);
    let level = level.unwrap_or_else(|| level_of(event_type));
    let (title, description) = (text_of(&TITLES), text_of(&DESCRIPTIONS));
    // Only the server itself writes operational events, so that their links lead to its own dashboard.
    let own_link = content.get("link").and_then(Value::as_str);
    let own_link = own_link.filter(|_| facts.message.application == OPERATIONAL_APPLICATION);
    let shown =
        [title.map(|(name, _)| name), description.map(|(name, _)| name), Some("level"), own_link.map(|_| "link")];
    let fields = content.iter().filter(|(name, value)| !value.is_null() && !shown.contains(&Some(name.as_str())));
    let fields = fields
        .take(CHAT_FIELDS_MAX)
        .map(|(name, value)| ChatTextField { name: one_line(name), value: escape(markup, &plain(value)) });
    let description = match (description, outer) {
        (Some((_, text)), _) => text.to_owned(),
        (None, Some(_)) => String::new(),
        (None, None) => plain(payload),
    };
    let title = title.map(|(_, text)| one_line(text)).unwrap_or_else(|| title_of(event_type, level, language));
    ChatText {
        level,
        title: cut(&title, NESTED_CHARS_MAX),
        description: escape(markup, description.trim()),
        fields: fields.filter(|field| !field.value.is_empty()).collect(),
        link: match own_link {
            Some(link) => web_link(link),
            None => facts.public_url.and_then(|url| dashboard_link(url, facts.message)),
        },
        mentions: Vec::new(),
        language,
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(_) | Value::Object(_) => cut(&value.to_string(), NESTED_CHARS_MAX),
        scalar => scalar.to_string(),
    }
}

/// Returns the level that the last word of an event type suggests.
fn level_of(event_type: &str) -> ChatLevel {
    let last = event_type.rsplit(['.', '-', '_']).next().unwrap_or_default().to_ascii_lowercase();
    match last.as_str() {
        "failed" | "failure" | "error" | "exhausted" | "dead" | "crashed" | "triggered" => ChatLevel::Error,
        "failing" | "ongoing" | "warning" | "disabled" | "cancelled" | "canceled" | "expired" | "timeout" => {
            ChatLevel::Warning
        }
        "succeeded" | "success" | "completed" | "finished" | "recovered" | "resolved" | "enabled" => ChatLevel::Success,
        _ => ChatLevel::Info,
    }
}

fn title_of(event_type: &str, level: ChatLevel, language: Language) -> String {
    let known = match event_type {
        "endpoint.created" => Some(("Endpoint created", "端点已创建")),
        "endpoint.updated" => Some(("Endpoint updated", "端点已更新")),
        "endpoint.deleted" => Some(("Endpoint deleted", "端点已删除")),
        "endpoint.disabled" => Some(("Endpoint disabled", "端点已停用")),
        "endpoint.enabled" => Some(("Endpoint enabled", "端点已启用")),
        "message.attempt.failing" => Some(("Delivery is failing", "投递持续失败")),
        "message.attempt.exhausted" => Some(("Delivery failed for good", "投递最终失败")),
        "message.attempt.recovered" => Some(("Delivery recovered", "投递已恢复")),
        "background_task.finished" => Some(("Background task finished", "后台任务已结束")),
        _ => None,
    };
    let word = match level {
        ChatLevel::Info => ("", ""),
        ChatLevel::Success => ("Success: ", "成功："),
        ChatLevel::Warning => ("Warning: ", "警告："),
        ChatLevel::Error => ("Error: ", "错误："),
    };
    match (known, language) {
        (Some((english, _)), Language::En) => english.to_owned(),
        (Some((_, chinese)), Language::Zh) => chinese.to_owned(),
        (None, Language::En) => format!("{}{event_type}", word.0),
        (None, Language::Zh) => format!("{}{event_type}", word.1),
    }
}

fn dashboard_link(public_url: &str, message: &Message) -> Option<String> {
    let base = public_url.trim_end_matches('/');
    web_link(&format!("{base}/apps/{}/messages/{}", message.application, message.id))
}

/// Returns a URL that is safe behind a button or in Markdown.
fn web_link(text: &str) -> Option<String> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())?;
    // Parentheses, quotes, bars and angle brackets would end a link early.
    let url = url.as_str().replace('(', "%28").replace(')', "%29").replace('\'', "%27").replace('|', "%7C");
    (url.len() <= 2000).then(|| url.replace('<', "%3C").replace('>', "%3E"))
}
