//! The answers of chat platforms, as they document them.

use everhook_core::chat::ChatKind;

use crate::receiver::{Answer, Receiver};

/// The platform has posted the message.
pub fn posted(kind: ChatKind) -> Answer {
    match kind {
        ChatKind::Slack => Answer::status(200).body("ok"),
        ChatKind::Discord => Answer::status(204),
        ChatKind::Teams => Answer::status(202),
        ChatKind::GoogleChat => Answer::status(200).body(r#"{"name": "spaces/A/messages/1"}"#),
        ChatKind::Feishu | ChatKind::Lark => Answer::status(200).body(r#"{"code": 0, "msg": "success", "data": {}}"#),
        ChatKind::DingTalk | ChatKind::WeCom => Answer::status(200).body(r#"{"errcode": 0, "errmsg": "ok"}"#),
    }
}

/// The platform has failed; a later attempt may succeed.
pub fn failed(kind: ChatKind) -> Answer {
    match kind {
        ChatKind::Slack => Answer::status(500).body("rollup_error"),
        ChatKind::Discord | ChatKind::Teams | ChatKind::GoogleChat => Answer::status(500),
        // The status is a success, and the body is malformed.
        ChatKind::Feishu | ChatKind::Lark => Answer::status(200).body(r#"{"code":"#),
        ChatKind::DingTalk | ChatKind::WeCom => Answer::status(200).body(r#"{"errcode": -1, "errmsg": "system busy"}"#),
    }
}

/// The platform wants fewer messages.
pub fn throttled(kind: ChatKind) -> Answer {
    match kind {
        ChatKind::Slack => Answer::status(429).header("retry-after", "30"),
        ChatKind::Discord => {
            Answer::status(429).body(r#"{"message": "limited", "retry_after": 30.5, "global": false}"#)
        }
        ChatKind::Teams | ChatKind::GoogleChat => Answer::status(429),
        ChatKind::Feishu | ChatKind::Lark => Answer::status(200)
            .body(r#"{"code": 11232, "msg": "frequency limited psm[lark.oapi.app_platform_runtime]"}"#),
        ChatKind::DingTalk => Answer::status(200).body(r#"{"errcode": 130101, "errmsg": "send too fast"}"#),
        ChatKind::WeCom => Answer::status(200).body(r#"{"errcode": 45009, "errmsg": "api freq out of limit"}"#),
    }
}

/// The webhook does not exist any more.
pub fn gone(kind: ChatKind) -> Answer {
    match kind {
        ChatKind::Slack => Answer::status(404).body("no_service"),
        ChatKind::Discord => Answer::status(404).body(r#"{"message": "Unknown Webhook", "code": 10015}"#),
        ChatKind::Teams | ChatKind::GoogleChat => Answer::status(404),
        ChatKind::Feishu | ChatKind::Lark => Answer::status(200)
            .body(r#"{"code": 19001, "msg": "param invalid: incoming webhook access token invalid"}"#),
        ChatKind::DingTalk => Answer::status(200).body(r#"{"errcode": 300005, "errmsg": "token is not exist"}"#),
        ChatKind::WeCom => Answer::status(200).body(r#"{"errcode": 93000, "errmsg": "invalid webhook url"}"#),
    }
}

/// A fake of a platform's API for direct messages, below one path of a receiver.
pub struct People<'a> {
    receiver: &'a Receiver,
    kind: ChatKind,
}

/// The person whom the fake knows.
const PERSON: &str = "person1";

impl<'a> People<'a> {
    /// Starts to answer. Everybody is known.
    pub fn of(receiver: &'a Receiver, kind: ChatKind) -> People<'a> {
        let people = People { receiver, kind };
        let token = r#"{"code": 0, "errcode": 0, "access_token": "tok", "tenant_access_token": "tok", "expire": 7200,
            "expires_in": 7200}"#;
        for path in [
            "/tenant/oauth2/v2.0/token",
            "/open-apis/auth/v3/tenant_access_token/internal",
            "/cgi-bin/gettoken?corpid=client&corpsecret=app-credential",
            "/gettoken?appkey=client&appsecret=app-credential",
        ] {
            people.answer(path, Answer::status(200).body(token));
        }
        people.answer("/v3/conversations", Answer::status(201).body(format!(r#"{{"id": "{PERSON}"}}"#)));
        people.answer(people.last(), Answer::status(200).body(r#"{"ok": true, "code": 0, "errcode": 0}"#));
        people.know();
        people
    }

    /// The address of the API.
    pub fn url(&self) -> String {
        self.receiver.url(&format!("/{}-api", self.kind))
    }

    /// Finds everybody.
    pub fn know(&self) {
        let found = format!(
            r#"{{"ok": true, "errcode": 0, "code": 0, "user": {{"id": "{PERSON}"}}, "value": [{{"id": "{PERSON}"}}],
            "userid": "{PERSON}", "result": {{"userid": "{PERSON}"}}}}"#
        );
        self.answer_look_up(Answer::status(200).body(found));
    }

    /// Finds nobody.
    pub fn forget(&self) {
        let nobody = match self.kind {
            ChatKind::Slack => r#"{"ok": false, "error": "users_not_found"}"#,
            ChatKind::Teams => r#"{"value": []}"#,
            ChatKind::WeCom => r#"{"errcode": 46004, "errmsg": "user not exist"}"#,
            ChatKind::DingTalk => r#"{"errcode": 60121, "errmsg": "user not found"}"#,
            _ => r#"{"code": 230013, "msg": "Bot has NO availability to this user."}"#,
        };
        self.answer_look_up(Answer::status(200).body(nobody));
    }

    /// Fails to send with this answer.
    pub fn answer_message(&self, answer: Answer) {
        self.answer(self.last(), answer);
    }

    /// The bodies of the messages that people got.
    pub fn messages(&self) -> Vec<String> {
        let seen = self.receiver.seen(&self.path(self.last()));
        seen.iter().map(|seen| String::from_utf8_lossy(&seen.body).into_owned()).collect()
    }

    fn answer_look_up(&self, answer: Answer) {
        for address in ["ann%40example.com", "bob%40example.com"] {
            let filter = format!("mail+eq+%27{address}%27+or+userPrincipalName+eq+%27{address}%27");
            self.answer(&format!("/v1.0/users?%24filter={filter}&%24select=id"), answer.clone());
        }
        for path in [
            "/api/users.lookupByEmail",
            "/cgi-bin/user/get_userid_by_email?access_token=tok",
            "/topapi/v2/user/getbymobile?access_token=tok",
        ] {
            self.answer(path, answer.clone());
        }
        if matches!(self.kind, ChatKind::Feishu | ChatKind::Lark) {
            // These platforms look up nobody: the message has the address.
            self.answer(self.last(), answer);
        }
    }

    /// The path that gets messages.
    fn last(&self) -> &'static str {
        match self.kind {
            ChatKind::Slack => "/api/chat.postMessage",
            ChatKind::Teams => "/v3/conversations/person1/activities",
            ChatKind::WeCom => "/cgi-bin/message/send?access_token=tok",
            ChatKind::DingTalk => "/topapi/message/corpconversation/asyncsend_v2?access_token=tok",
            _ => "/open-apis/im/v1/messages?receive_id_type=email",
        }
    }

    fn path(&self, path: &str) -> String {
        format!("/{}-api{path}", self.kind)
    }

    fn answer(&self, path: &str, answer: Answer) {
        self.receiver.answer(&self.path(path), answer);
    }
}
