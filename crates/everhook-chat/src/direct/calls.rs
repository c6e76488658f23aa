//! The calls of each platform's API, as it documents them.

use everhook_core::chat::{ChatKind, ChatSecret};
use everhook_core::chat_app::{ChatApp, PersonAddress};
use serde_json::{Value, json};
use url::form_urlencoded;

use crate::notice::ChatText;
use crate::payload::{dingtalk, feishu, slack, teams_workflow, wecom};

/// A request to a platform's API. Its URL and its header may have secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct DirectCall {
    pub is_get: bool,
    pub url: String,
    /// The token for the header `Authorization`.
    pub bearer: Option<String>,
    pub body: DirectBody,
}

#[derive(Clone, PartialEq, Eq)]
pub enum DirectBody {
    Empty,
    Form(String),
    Json(Value),
}

/// The use of a token. Teams has one for its directory and one for its bots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Audience {
    Directory,
    Messages,
}

/// The purpose of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Token(Audience),
    /// Finds a person. WeCom has two kinds of e-mail addresses, so it is asked twice.
    Find {
        again: bool,
    },
    /// Opens a conversation with a person who was found.
    Open,
    Send,
}

/// Whether the platform sends to an address without looking it up.
pub(super) fn needs_no_look_up(kind: ChatKind) -> bool {
    matches!(kind, ChatKind::Feishu | ChatKind::Lark)
}

/// The token that a call needs.
pub(super) fn audience(kind: ChatKind, ask: Ask) -> Option<Audience> {
    match ask {
        Ask::Token(_) => None,
        Ask::Find { .. } if kind == ChatKind::Teams => Some(Audience::Directory),
        Ask::Find { .. } | Ask::Open | Ask::Send => Some(Audience::Messages),
    }
}

/// Writes a call. `to` is the address, the person or the conversation.
pub(super) fn call(
    app: &ChatApp,
    ask: Ask,
    token: &str,
    (address, to): (&PersonAddress, &str),
    text: &ChatText,
) -> DirectCall {
    let ChatSecret(secret) = &app.secret;
    let client = app.client_id.as_deref().unwrap_or_default();
    let agent = app.agent_id.unwrap_or_default();
    let tenant = app.tenant_id.as_deref().unwrap_or_default();
    let place = |host: &str, path: &str| {
        let base = app.api_url.as_deref().unwrap_or(host);
        format!("{}{path}", base.trim_end_matches('/'))
    };
    let address = address.as_str();
    match (app.kind, ask) {
        (ChatKind::Slack, Ask::Find { .. }) => {
            let url = place(SLACK, "/api/users.lookupByEmail");
            DirectCall { bearer: Some(token.to_owned()), ..form(url, &[("email", address)]) }
        }
        (ChatKind::Slack, _) => {
            let mut body = slack(text);
            body["channel"] = to.into();
            DirectCall { bearer: Some(token.to_owned()), ..post(place(SLACK, "/api/chat.postMessage"), body) }
        }
        (ChatKind::Teams, Ask::Token(audience)) => {
            let scope = match audience {
                Audience::Directory => "https://graph.microsoft.com/.default",
                Audience::Messages => "https://api.botframework.com/.default",
            };
            let url = place("https://login.microsoftonline.com", &format!("/{tenant}/oauth2/v2.0/token"));
            let grant = ("grant_type", "client_credentials");
            form(url, &[grant, ("client_id", client), ("client_secret", secret), ("scope", scope)])
        }
        (ChatKind::Teams, Ask::Find { .. }) => {
            let address = address.replace('\'', "''");
            let filter = format!("mail eq '{address}' or userPrincipalName eq '{address}'");
            let query = query(&[("$filter", &filter), ("$select", "id")]);
            get(place("https://graph.microsoft.com", &format!("/v1.0/users?{query}")), Some(token))
        }
        (ChatKind::Teams, Ask::Open) => {
            let body = json!({
                "isGroup": false,
                "bot": { "id": format!("28:{client}") },
                "members": [{ "id": to }],
                "tenantId": tenant,
                "channelData": { "tenant": { "id": tenant } },
            });
            DirectCall { bearer: Some(token.to_owned()), ..post(place(TEAMS_BOTS, "/v3/conversations"), body) }
        }
        (ChatKind::Teams, Ask::Send) => {
            let url = place(TEAMS_BOTS, &format!("/v3/conversations/{}/activities", segment(to)));
            DirectCall { bearer: Some(token.to_owned()), ..post(url, teams_workflow(text)) }
        }
        (ChatKind::Feishu | ChatKind::Lark, Ask::Token(_)) => {
            let url = place(feishu_host(app.kind), "/open-apis/auth/v3/tenant_access_token/internal");
            post(url, json!({ "app_id": client, "app_secret": secret }))
        }
        (ChatKind::Feishu | ChatKind::Lark, _) => {
            let url = place(feishu_host(app.kind), "/open-apis/im/v1/messages?receive_id_type=email");
            let card = feishu(text)["card"].to_string();
            let body = json!({ "receive_id": address, "msg_type": "interactive", "content": card });
            DirectCall { bearer: Some(token.to_owned()), ..post(url, body) }
        }
        (ChatKind::WeCom, Ask::Token(_)) => {
            let query = query(&[("corpid", client), ("corpsecret", secret)]);
            get(place(WECOM, &format!("/cgi-bin/gettoken?{query}")), None)
        }
        (ChatKind::WeCom, Ask::Find { again }) => {
            let url = place(WECOM, &format!("/cgi-bin/user/get_userid_by_email?{}", access(token)));
            post(url, json!({ "email": address, "email_type": if again { 2 } else { 1 } }))
        }
        (ChatKind::WeCom, _) => {
            let mut body = wecom(text);
            body["touser"] = to.into();
            body["agentid"] = agent.into();
            post(place(WECOM, &format!("/cgi-bin/message/send?{}", access(token))), body)
        }
        (ChatKind::DingTalk, Ask::Token(_)) => {
            let query = query(&[("appkey", client), ("appsecret", secret)]);
            get(place(DINGTALK, &format!("/gettoken?{query}")), None)
        }
        (ChatKind::DingTalk, Ask::Find { .. }) => {
            let url = place(DINGTALK, &format!("/topapi/v2/user/getbymobile?{}", access(token)));
            form(url, &[("mobile", address)])
        }
        (ChatKind::DingTalk | ChatKind::Discord | ChatKind::GoogleChat, _) => {
            let body = dingtalk(text);
            let msg = json!({ "msgtype": body["msgtype"], "markdown": body["markdown"] });
            let path = format!("/topapi/message/corpconversation/asyncsend_v2?{}", access(token));
            post(place(DINGTALK, &path), json!({ "agent_id": agent, "userid_list": to, "msg": msg }))
        }
    }
}

const SLACK: &str = "https://slack.com";
const TEAMS_BOTS: &str = "https://smba.trafficmanager.net/teams";
const WECOM: &str = "https://qyapi.weixin.qq.com";
const DINGTALK: &str = "https://oapi.dingtalk.com";

fn feishu_host(kind: ChatKind) -> &'static str {
    if kind == ChatKind::Lark { "https://open.larksuite.com" } else { "https://open.feishu.cn" }
}

fn get(url: String, bearer: Option<&str>) -> DirectCall {
    DirectCall { is_get: true, url, bearer: bearer.map(str::to_owned), body: DirectBody::Empty }
}

fn post(url: String, body: Value) -> DirectCall {
    DirectCall { is_get: false, url, bearer: None, body: DirectBody::Json(body) }
}

fn form(url: String, pairs: &[(&str, &str)]) -> DirectCall {
    DirectCall { is_get: false, url, bearer: None, body: DirectBody::Form(query(pairs)) }
}

fn access(token: &str) -> String {
    query(&[("access_token", token)])
}

fn query(pairs: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

/// Encodes a text as one part of a path.
fn segment(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}
