//! The body that each platform expects, cut at its limits.
//!
//! Titles and labels have no markup yet and are escaped here; descriptions and field values have it.

use everhook_core::chat::{ChatKind, ChatLevel, Language, MENTION_ALL, TeamsForm, teams_form};
use serde_json::{Value, json};
use url::Url;

use crate::escape::{Markup, cut, cut_bytes, escape};
use crate::notice::{ChatText, ChatTextField};

/// Returns the body for a platform.
pub(crate) fn payload(kind: ChatKind, url: &Url, notice: &ChatText) -> Value {
    match kind {
        ChatKind::Slack => slack(notice),
        ChatKind::Discord => discord(notice),
        ChatKind::Teams => match teams_form(url) {
            TeamsForm::Connector => teams_connector(notice),
            TeamsForm::Workflow => teams_workflow(notice),
        },
        ChatKind::GoogleChat => google_chat(notice),
        ChatKind::Feishu | ChatKind::Lark => feishu(notice),
        ChatKind::DingTalk => dingtalk(notice),
        ChatKind::WeCom => wecom(notice),
    }
}

/// A text is at most 3000 characters, a field 2000. Mentions are only read in the top text.
pub(crate) fn slack(notice: &ChatText) -> Value {
    let mention = |id: &String| match id.as_str() {
        MENTION_ALL => "<!channel>".to_owned(),
        "here" => "<!here>".to_owned(),
        group if group.starts_with('S') => format!("<!subteam^{group}>"),
        user => format!("<@{user}>"),
    };
    let title = cut(&escape(Markup::Mrkdwn, &headline(notice)), 300);
    let text = std::iter::once(format!("*{}*", title.replace('*', "∗"))).chain(notice.mentions.iter().map(mention));
    let mrkdwn = |text: String| json!({ "type": "mrkdwn", "text": text, "verbatim": true });
    let mut blocks = Vec::new();
    if !notice.description.is_empty() {
        blocks.push(json!({ "type": "section", "text": mrkdwn(cut(&notice.description, 3000)) }));
    }
    if !notice.fields.is_empty() {
        let field = |field: &ChatTextField| {
            let name = cut(&escape(Markup::Mrkdwn, &field.name), 200).replace('*', "∗");
            mrkdwn(format!("*{name}*\n{}", cut(&field.value, 1700)))
        };
        blocks.push(json!({ "type": "section", "fields": notice.fields.iter().map(field).collect::<Vec<_>>() }));
    }
    if let Some(link) = &notice.link {
        let text = format!("<{link}|{}>", open(notice.language));
        blocks.push(json!({ "type": "context", "elements": [mrkdwn(text)] }));
    }
    let text = text.collect::<Vec<_>>().join(" ");
    let mut body = json!({ "text": text, "unfurl_links": false, "unfurl_media": false });
    if !blocks.is_empty() {
        body["attachments"] = json!([{ "color": format!("#{}", colour(notice.level)), "blocks": blocks }]);
    }
    body
}

/// An embed has at most 6000 characters in all its texts. Embeds mention nobody.
fn discord(notice: &ChatText) -> Value {
    let (mut users, mut roles, mut everyone, mut content) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for mention in &notice.mentions {
        match mention.strip_prefix("role:") {
            Some(role) => {
                content.push(format!("<@&{role}>"));
                roles.push(role);
            }
            None if mention == MENTION_ALL => {
                content.push("@everyone".to_owned());
                everyone.push("everyone");
            }
            None => {
                content.push(format!("<@{mention}>"));
                users.push(mention);
            }
        }
    }
    let field = |field: &ChatTextField| {
        let name = cut(&escape(Markup::Markdown, &field.name), 100);
        json!({ "name": or_dash(name), "value": or_dash(cut(&field.value, 250)), "inline": true })
    };
    let mut embed = json!({
        "title": cut(&escape(Markup::Markdown, &headline(notice)), 256),
        "color": u32::from_str_radix(colour(notice.level), 16).unwrap_or_default(),
        "fields": notice.fields.iter().map(field).collect::<Vec<_>>(),
    });
    if !notice.description.is_empty() {
        embed["description"] = cut(&notice.description, 2100).into();
    }
    if let Some(link) = &notice.link {
        embed["url"] = link.as_str().into();
    }
    json!({
        "content": content.join(" "),
        "embeds": [embed],
        "allowed_mentions": { "parse": everyone, "users": users, "roles": roles },
    })
}

/// A message has at most 28 kB.
pub(crate) fn teams_workflow(notice: &ChatText) -> Value {
    let style = match notice.level {
        ChatLevel::Info => "accent",
        ChatLevel::Success => "good",
        ChatLevel::Warning => "warning",
        ChatLevel::Error => "attention",
    };
    let block = |text: String| json!({ "type": "TextBlock", "text": text, "wrap": true });
    let mut title = block(cut(&escape(Markup::Markdown, &headline(notice)), 300));
    title["weight"] = "bolder".into();
    title["size"] = "medium".into();
    title["color"] = style.into();
    let mut elements = vec![title];
    let mut entities = Vec::new();
    let mut names = Vec::new();
    for mention in &notice.mentions {
        let text = format!("<at>{mention}</at>");
        let mentioned = json!({ "id": mention, "name": mention });
        entities.push(json!({ "type": "mention", "text": text, "mentioned": mentioned }));
        names.push(text);
    }
    if !names.is_empty() {
        elements.push(block(names.join(" ")));
    }
    if !notice.description.is_empty() {
        elements.push(block(cut(&notice.description, 3000)));
    }
    if !notice.fields.is_empty() {
        elements.push(json!({ "type": "FactSet", "facts": facts(notice, "title") }));
    }
    let mut card = json!({
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": elements,
        "msteams": { "width": "Full", "entities": entities },
    });
    if let Some(link) = &notice.link {
        card["actions"] = json!([{ "type": "Action.OpenUrl", "title": open(notice.language), "url": link }]);
    }
    let attachment = json!({ "contentType": "application/vnd.microsoft.card.adaptive", "content": card });
    json!({ "type": "message", "attachments": [attachment] })
}

fn teams_connector(notice: &ChatText) -> Value {
    let title = cut(&escape(Markup::Markdown, &headline(notice)), 300);
    let mut card = json!({
        "@type": "MessageCard",
        "@context": "https://schema.org/extensions",
        "themeColor": colour(notice.level),
        "summary": cut(&notice.title, 200),
        "title": title,
        "text": cut(&notice.description, 3000),
        "sections": [{ "facts": facts(notice, "name"), "markdown": true }],
    });
    if let Some(link) = &notice.link {
        let targets = json!([{ "os": "default", "uri": link }]);
        card["potentialAction"] = json!([{ "@type": "OpenUri", "name": open(notice.language), "targets": targets }]);
    }
    card
}

fn facts(notice: &ChatText, name: &str) -> Vec<Value> {
    let fact = |field: &ChatTextField| {
        let label = cut(&escape(Markup::Markdown, &field.name), 100);
        json!({ name: label, "value": cut(&field.value, 300) })
    };
    notice.fields.iter().map(fact).collect()
}

/// A message has at most 32 kB. Only the top text mentions people.
fn google_chat(notice: &ChatText) -> Value {
    let mut widgets = Vec::new();
    if !notice.description.is_empty() {
        widgets.push(json!({ "textParagraph": { "text": cut(&notice.description, 3000) } }));
    }
    for field in &notice.fields {
        let (label, text) = (cut(&field.name, 100), cut(&field.value, 300));
        widgets.push(json!({ "decoratedText": { "topLabel": label, "text": text, "wrapText": true } }));
    }
    if let Some(link) = &notice.link {
        let button = json!({ "text": open(notice.language), "onClick": { "openLink": { "url": link } } });
        widgets.push(json!({ "buttonList": { "buttons": [button] } }));
    }
    if widgets.is_empty() {
        widgets.push(json!({ "textParagraph": { "text": escape(Markup::Html, &notice.title) } }));
    }
    let header = json!({ "title": cut(&headline(notice), 200) });
    let card = json!({ "header": header, "sections": [{ "widgets": widgets }] });
    let mut body = json!({ "cardsV2": [{ "cardId": "everhook", "card": card }] });
    if !notice.mentions.is_empty() {
        let mentions: Vec<String> = notice.mentions.iter().map(|id| format!("<users/{id}>")).collect();
        body["text"] = mentions.join(" ").into();
    }
    body
}

/// A request has at most 20 kB.
pub(crate) fn feishu(notice: &ChatText) -> Value {
    let template = match notice.level {
        ChatLevel::Info => "blue",
        ChatLevel::Success => "green",
        ChatLevel::Warning => "orange",
        ChatLevel::Error => "red",
    };
    let mut elements = Vec::new();
    if !notice.description.is_empty() {
        elements.push(json!({ "tag": "markdown", "content": cut(&notice.description, 2500) }));
    }
    if !notice.fields.is_empty() {
        let field = |field: &ChatTextField| {
            let label = cut(&escape(Markup::Entities, &field.name), 80);
            let content = format!("**{label}**\n{}", cut(&field.value, 200));
            json!({ "is_short": true, "text": { "tag": "lark_md", "content": content } })
        };
        elements.push(json!({ "tag": "div", "fields": notice.fields.iter().map(field).collect::<Vec<_>>() }));
    }
    if !notice.mentions.is_empty() {
        let mentions: Vec<String> = notice.mentions.iter().map(|id| format!("<at id={id}></at>")).collect();
        elements.push(json!({ "tag": "markdown", "content": mentions.join(" ") }));
    }
    if let Some(link) = &notice.link {
        let text = json!({ "tag": "plain_text", "content": open(notice.language) });
        let button = json!({ "tag": "button", "text": text, "url": link, "type": "default" });
        elements.push(json!({ "tag": "action", "actions": [button] }));
    }
    let title = json!({ "tag": "plain_text", "content": cut(&headline(notice), 200) });
    let header = json!({ "title": title, "template": template });
    let card = json!({ "config": { "wide_screen_mode": true }, "header": header, "elements": elements });
    json!({ "msg_type": "interactive", "card": card })
}

/// A message has at most 20 kB, and JSON may double the bytes of a text. Mentions need both the text and the list.
pub(crate) fn dingtalk(notice: &ChatText) -> Value {
    let is_mobile = |id: &&String| id.bytes().all(|byte| byte.is_ascii_digit());
    let people = notice.mentions.iter().filter(|id| *id != MENTION_ALL);
    let (mobiles, users): (Vec<&String>, Vec<&String>) = people.clone().partition(is_mobile);
    let names: Vec<String> = people.map(|id| format!("@{id}")).collect();
    let title = cut(&headline(notice), 200);
    let text = document(notice, Markup::Markdown, "### ", "\n\n", &names.join(" "), 9_000);
    json!({
        "msgtype": "markdown",
        "markdown": { "title": title, "text": text },
        "at": {
            "atMobiles": mobiles,
            "atUserIds": users,
            "isAtAll": notice.mentions.iter().any(|id| id == MENTION_ALL),
        },
    })
}

/// A text has at most 4096 bytes.
pub(crate) fn wecom(notice: &ChatText) -> Value {
    let mentions: Vec<String> = notice.mentions.iter().map(|id| format!("<@{id}>")).collect();
    let content = document(notice, Markup::Lookalikes, "### ", "\n", &mentions.join(" "), 4096);
    json!({ "msgtype": "markdown", "markdown": { "content": content } })
}

/// Writes all parts as one Markdown text. The description gets the bytes that the other parts leave.
fn document(notice: &ChatText, markup: Markup, heading: &str, gap: &str, mentions: &str, max: usize) -> String {
    let title = format!("{heading}{}", cut_bytes(&escape(markup, &headline(notice)), 400));
    let link = notice.link.as_ref().filter(|link| link.len() <= 600);
    let link = link.map(|link| format!("[{}]({link})", open(notice.language)));
    let tail: Vec<String> =
        [Some(mentions.to_owned()).filter(|it| !it.is_empty()), link].into_iter().flatten().collect();
    let fixed = title.len() + tail.iter().map(|part| part.len() + gap.len()).sum::<usize>();
    let mut left = max.saturating_sub(fixed);
    let mut fields = Vec::new();
    for field in &notice.fields {
        let name = cut_bytes(&escape(markup, &field.name), 100);
        let line = format!("> {name}: {}", cut_bytes(&field.value.replace('\n', " "), 300));
        // At least a third of the text is left to the description.
        if line.len() + gap.len() > left.saturating_sub(max / 3) {
            break;
        }
        left -= line.len() + gap.len();
        fields.push(line);
    }
    let description = cut_bytes(&notice.description, left.saturating_sub(gap.len()));
    let description = Some(description).filter(|text| !text.is_empty());
    std::iter::once(title).chain(description).chain(fields).chain(tail).collect::<Vec<_>>().join(gap)
}

fn headline(notice: &ChatText) -> String {
    let emoji = match notice.level {
        ChatLevel::Info => "ℹ️",
        ChatLevel::Success => "✅",
        ChatLevel::Warning => "⚠️",
        ChatLevel::Error => "❌",
    };
    format!("{emoji} {}", notice.title)
}

fn colour(level: ChatLevel) -> &'static str {
    match level {
        ChatLevel::Info => "2F81F7",
        ChatLevel::Success => "2EA043",
        ChatLevel::Warning => "D29922",
        ChatLevel::Error => "CF222E",
    }
}

fn open(language: Language) -> &'static str {
    match language {
        Language::En => "Open",
        Language::Zh => "打开",
    }
}

/// Discord refuses empty names and values.
fn or_dash(text: String) -> String {
    if text.trim().is_empty() { "-".to_owned() } else { text }
}
