//! The answers of chat platforms, as they document them.

use everhook_core::chat::ChatKind;

use crate::receiver::Answer;

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
