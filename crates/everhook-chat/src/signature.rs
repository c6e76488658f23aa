//! Signatures of webhooks over a timestamp and the secret of the robot.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use everhook_core::time::Timestamp;
use url::Url;

/// Adds the signature of DingTalk to the URL: the secret is the key, and milliseconds are signed.
pub(crate) fn dingtalk(url: &Url, secret: &str, now: Timestamp) -> Url {
    let timestamp = now.as_millis();
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let sign = BASE64.encode(hmac::sign(&key, format!("{timestamp}\n{secret}").as_bytes()));
    let mut url = url.clone();
    url.query_pairs_mut().append_pair("timestamp", &timestamp.to_string()).append_pair("sign", &sign);
    url
}

/// Returns the timestamp and the signature of Feishu and Lark: the key is the text, and nothing is signed with it.
pub(crate) fn feishu(secret: &str, now: Timestamp) -> (String, String) {
    let timestamp = now.as_secs().to_string();
    let key = hmac::Key::new(hmac::HMAC_SHA256, format!("{timestamp}\n{secret}").as_bytes());
    (timestamp, BASE64.encode(hmac::sign(&key, b"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values were computed with Python's `hmac` module, after the samples of the platforms.
    #[test]
    fn signatures_are_those_of_the_platforms() {
        let now = Timestamp::from_millis(1_599_360_473_123);
        let url = Url::parse("https://oapi.dingtalk.com/robot/send?access_token=t").unwrap();
        assert_eq!(
            dingtalk(&url, "SECabc", now).as_str(),
            "https://oapi.dingtalk.com/robot/send?access_token=t&timestamp=1599360473123&sign=WTmPOAnx8ZVo%2BxZKX7g%2Bo52vstWy10neVWw7vKA4UbY%3D"
        );
        assert_eq!(
            feishu("demo", now),
            ("1599360473".to_owned(), "l1N0gAcBjdwBvGm1xMjOF0XSyaLRpR7tuO5dHfhAYc8=".to_owned())
        );
    }
}
