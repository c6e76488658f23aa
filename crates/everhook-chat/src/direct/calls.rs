//! The calls of each platform's API, as it documents them.

use everhook_core::chat::ChatKind;
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

/// The parts of a call.
pub(super) struct Parts<'a> {
    pub(super) app: &'a ChatApp,
    pub(super) token: &'a str,
    pub(super) address: &'a PersonAddress,
    /// The person or the conversation, as far as they are known.
    pub(super) to: &'a str,
    pub(super) text: &'a ChatText,
}

impl Parts<'_> {
    pub(super) fn call(&self, ask: Ask) -> DirectCall {
        match self.app.kind {
            ChatKind::Slack => self.slack(ask),
            ChatKind::Teams => self.teams(ask),
            ChatKind::Feishu | ChatKind::Lark => self.feishu(ask),
            ChatKind::WeCom => self.wecom(ask),
            // The last two have no apps.
            ChatKind::DingTalk | ChatKind::Discord | ChatKind::GoogleChat => self.dingtalk(ask),
        }
    }

    fn slack(&self, ask: Ask) -> DirectCall {
        let call = match ask {
            Ask::Find { .. } => {
                form(self.place(SLACK, "/api/users.lookupByEmail"), &[("email", self.address.as_str())])
            }
            Ask::Token(_) | Ask::Open | Ask::Send => {
                let mut body = slack(self.text);
                body["channel"] = self.to.into();
                post(self.place(SLACK, "/api/chat.postMessage"), body)
            }
        };
        self.authorized(call)
    }

    fn teams(&self, ask: Ask) -> DirectCall {
        let (client, secret) = self.client();
        let tenant = self.app.tenant_id.as_deref().unwrap_or_default();
        match ask {
            Ask::Token(audience) => {
                let scope = match audience {
                    Audience::Directory => "https://graph.microsoft.com/.default",
                    Audience::Messages => "https://api.botframework.com/.default",
                };
                let url = self.place("https://login.microsoftonline.com", &format!("/{tenant}/oauth2/v2.0/token"));
                let grant = ("grant_type", "client_credentials");
                form(url, &[grant, ("client_id", client), ("client_secret", secret), ("scope", scope)])
            }
            Ask::Find { .. } => {
                let address = self.address.as_str().replace('\'', "''");
                let filter = format!("mail eq '{address}' or userPrincipalName eq '{address}'");
                let query = query(&[("$filter", &filter), ("$select", "id")]);
                self.authorized(get(self.place("https://graph.microsoft.com", &format!("/v1.0/users?{query}"))))
            }
            Ask::Open => {
                let body = json!({
                    "isGroup": false,
                    "bot": { "id": format!("28:{client}") },
                    "members": [{ "id": self.to }],
                    "tenantId": tenant,
                    "channelData": { "tenant": { "id": tenant } },
                });
                self.authorized(post(self.place(TEAMS_BOTS, "/v3/conversations"), body))
            }
            Ask::Send => {
                let url = self.place(TEAMS_BOTS, &format!("/v3/conversations/{}/activities", segment(self.to)));
                self.authorized(post(url, teams_workflow(self.text)))
            }
        }
    }

    fn feishu(&self, ask: Ask) -> DirectCall {
        let host =
            if self.app.kind == ChatKind::Lark { "https://open.larksuite.com" } else { "https://open.feishu.cn" };
        match ask {
            Ask::Token(_) => {
                let (client, secret) = self.client();
                let url = self.place(host, "/open-apis/auth/v3/tenant_access_token/internal");
                post(url, json!({ "app_id": client, "app_secret": secret }))
            }
            Ask::Find { .. } | Ask::Open | Ask::Send => {
                let url = self.place(host, "/open-apis/im/v1/messages?receive_id_type=email");
                let (address, card) = (self.address.as_str(), feishu(self.text)["card"].to_string());
                let body = json!({ "receive_id": address, "msg_type": "interactive", "content": card });
                self.authorized(post(url, body))
            }
        }
    }

    fn wecom(&self, ask: Ask) -> DirectCall {
        match ask {
            Ask::Token(_) => {
                let (client, secret) = self.client();
                let query = query(&[("corpid", client), ("corpsecret", secret)]);
                get(self.place(WECOM, &format!("/cgi-bin/gettoken?{query}")))
            }
            Ask::Find { again } => {
                let url = self.place(WECOM, &format!("/cgi-bin/user/get_userid_by_email?{}", access(self.token)));
                post(url, json!({ "email": self.address.as_str(), "email_type": if again { 2 } else { 1 } }))
            }
            Ask::Open | Ask::Send => {
                let mut body = wecom(self.text);
                body["touser"] = self.to.into();
                body["agentid"] = self.app.agent_id.into();
                post(self.place(WECOM, &format!("/cgi-bin/message/send?{}", access(self.token))), body)
            }
        }
    }

    fn dingtalk(&self, ask: Ask) -> DirectCall {
        match ask {
            Ask::Token(_) => {
                let (client, secret) = self.client();
                let query = query(&[("appkey", client), ("appsecret", secret)]);
                get(self.place(DINGTALK, &format!("/gettoken?{query}")))
            }
            Ask::Find { .. } => {
                let url = self.place(DINGTALK, &format!("/topapi/v2/user/getbymobile?{}", access(self.token)));
                form(url, &[("mobile", self.address.as_str())])
            }
            Ask::Open | Ask::Send => {
                let body = dingtalk(self.text);
                let msg = json!({ "msgtype": body["msgtype"], "markdown": body["markdown"] });
                let path = format!("/topapi/message/corpconversation/asyncsend_v2?{}", access(self.token));
                let agent = self.app.agent_id;
                post(self.place(DINGTALK, &path), json!({ "agent_id": agent, "userid_list": self.to, "msg": msg }))
            }
        }
    }

    fn client(&self) -> (&str, &str) {
        (self.app.client_id.as_deref().unwrap_or_default(), &self.app.secret.0)
    }

    /// The address of a path at the host of the platform, or at the one in its place.
    fn place(&self, host: &str, path: &str) -> String {
        let base = self.app.api_url.as_deref().unwrap_or(host);
        format!("{}{path}", base.trim_end_matches('/'))
    }

    fn authorized(&self, call: DirectCall) -> DirectCall {
        DirectCall { bearer: Some(self.token.to_owned()), ..call }
    }
}

const SLACK: &str = "https://slack.com";
const TEAMS_BOTS: &str = "https://smba.trafficmanager.net/teams";
const WECOM: &str = "https://qyapi.weixin.qq.com";
const DINGTALK: &str = "https://oapi.dingtalk.com";

fn get(url: String) -> DirectCall {
    DirectCall { is_get: true, url, bearer: None, body: DirectBody::Empty }
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
