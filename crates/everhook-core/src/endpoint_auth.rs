//! How the requests to an endpoint prove who sends them, besides the signature: Basic, OAuth, or a client certificate.
//! Also the authority that the receiver's certificate must come from.
//!
//! Pure: it builds and reads the texts of a token request, and sends nothing. The API writes the material and never
//! returns its secrets; the engine and the sender use it. Its `Debug` form shows no secret.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use url::form_urlencoded;

use crate::id::Id;

/// Longest token that is used.
pub const TOKEN_BYTES_MAX: usize = 8 * 1024;
/// Lifetime of a token whose issuer names none.
const TOKEN_LIFE_DEFAULT: Duration = Duration::from_secs(300);
/// Longest use of a token. A revoked client loses access after this time at the latest.
const TOKEN_LIFE_MAX: Duration = Duration::from_secs(3600);
/// A token is replaced this long before it expires, so that it does not expire on its way.
const TOKEN_MARGIN: Duration = Duration::from_secs(30);

/// The stored material of an endpoint.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointAuth {
    pub basic: Option<BasicAuth>,
    pub oauth: Option<OauthClient>,
    /// The client certificate with its chain and private key, in PEM.
    pub identity: Option<String>,
    /// The only authorities that the receiver's certificate may come from, in PEM. None: those of the system.
    pub ca: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BasicAuth {
    pub username: String,
    pub password: String,
}

/// A client that gets tokens with the grant `client_credentials`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OauthClient {
    pub token_url: String,
    pub auth_method: OauthMethod,
    pub client_id: String,
    pub client_secret: String,
    #[serde(default)]
    pub scopes: Vec<String>,
    /// More parameters of the token request.
    #[serde(default)]
    pub extra_params: BTreeMap<String, String>,
    /// More headers of the token request.
    #[serde(default)]
    pub extra_headers: BTreeMap<String, String>,
}

/// The place of the client's secret in the token request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OauthMethod {
    /// In the header `Authorization`.
    ClientSecretBasic,
    /// In the body.
    ClientSecretPost,
}

#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// The value of the header `Authorization`.
    pub authorization: String,
    /// How long the token may be used.
    pub life: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadToken {
    #[error("the OAuth token endpoint did not answer with a JSON object that has an access_token")]
    Unreadable,
    #[error("the OAuth token endpoint issued a token that is not a bearer token")]
    NotBearer,
    #[error("the OAuth token endpoint issued a token that cannot be sent in a header")]
    NotAHeader,
}

impl EndpointAuth {
    pub fn is_empty(&self) -> bool {
        *self == EndpointAuth::default()
    }

    /// Identifies the material of the connection; none if the connection needs none. Connections with different
    /// material must not be shared.
    pub fn connection_id(&self) -> Option<Id> {
        if self.identity.is_none() && self.ca.is_none() {
            return None;
        }
        let [identity, ca] = [&self.identity, &self.ca].map(|text| text.as_deref().unwrap_or_default().as_bytes());
        Some(Id::derived(&[b"connection", identity, ca]))
    }

    /// The approximate memory of the material.
    pub fn bytes(&self) -> usize {
        let pems = [&self.identity, &self.ca].into_iter().flatten().map(String::len).sum::<usize>();
        let oauth = self.oauth.as_ref().map_or(0, |client| {
            let pairs = client.extra_params.iter().chain(&client.extra_headers);
            let pairs = pairs.map(|(name, value)| name.len() + value.len()).sum::<usize>();
            client.token_url.len() + client.client_id.len() + client.client_secret.len() + pairs
        });
        size_of::<EndpointAuth>() + pems + oauth
    }
}

impl BasicAuth {
    /// The value of the header `Authorization`.
    pub fn authorization(&self) -> String {
        format!("Basic {}", BASE64.encode(format!("{}:{}", self.username, self.password)))
    }
}

impl OauthClient {
    /// Identifies the client with its secret, as the key of its tokens.
    pub fn id(&self) -> Id {
        let text = serde_json::to_vec(self).expect("texts can be written as JSON");
        Id::derived(&[b"oauth", &text])
    }

    /// The body of the token request.
    pub fn form(&self) -> String {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "client_credentials");
        if self.auth_method == OauthMethod::ClientSecretPost {
            form.append_pair("client_id", &self.client_id).append_pair("client_secret", &self.client_secret);
        }
        if !self.scopes.is_empty() {
            form.append_pair("scope", &self.scopes.join(" "));
        }
        form.extend_pairs(&self.extra_params);
        form.finish()
    }

    /// The value of the header `Authorization` of the token request.
    pub fn authorization(&self) -> Option<String> {
        if self.auth_method != OauthMethod::ClientSecretBasic {
            return None;
        }
        // RFC 6749 encodes both parts as in a form, so that a colon in the id does not end it.
        let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let (username, password) = (encode(&self.client_id), encode(&self.client_secret));
        Some(BasicAuth { username, password }.authorization())
    }
}

impl Token {
    /// Reads the reply of a token endpoint.
    pub fn read(reply: &[u8]) -> Result<Token, BadToken> {
        #[derive(Deserialize)]
        struct Reply {
            access_token: String,
            token_type: Option<String>,
            // Some issuers write a number as a text.
            expires_in: Option<serde_json::Value>,
        }
        let reply: Reply = serde_json::from_slice(reply).map_err(|_| BadToken::Unreadable)?;
        if reply.token_type.is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
            return Err(BadToken::NotBearer);
        }
        let token = reply.access_token;
        if token.is_empty() || token.len() > TOKEN_BYTES_MAX || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(BadToken::NotAHeader);
        }
        let seconds = reply.expires_in.and_then(|value| match value {
            serde_json::Value::Number(number) => number.as_f64(),
            serde_json::Value::String(text) => text.parse::<f64>().ok(),
            _ => None,
        });
        let life = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or(TOKEN_LIFE_DEFAULT);
        let life = life.min(TOKEN_LIFE_MAX);
        // A short token keeps most of its life.
        let life = life.saturating_sub(TOKEN_MARGIN.min(life / 10));
        Ok(Token { authorization: format!("Bearer {token}"), life })
    }
}

impl fmt::Debug for EndpointAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("basic", self.basic.is_some()),
            ("oauth", self.oauth.is_some()),
            ("identity", self.identity.is_some()),
            ("ca", self.ca.is_some()),
        ];
        f.debug_set().entries(parts.into_iter().filter(|(_, set)| *set).map(|(name, _)| name)).finish()
    }
}

impl fmt::Debug for BasicAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BasicAuth(redacted)")
    }
}

impl fmt::Debug for OauthClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OauthClient(redacted)")
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(auth_method: OauthMethod) -> OauthClient {
        OauthClient {
            token_url: "https://issuer.test/token".to_owned(),
            auth_method,
            client_id: "id:1".to_owned(),
            client_secret: "s&cret".to_owned(),
            scopes: vec!["a".to_owned(), "b c".to_owned()],
            extra_params: [("audience".to_owned(), "https://x/".to_owned())].into(),
            extra_headers: BTreeMap::new(),
        }
    }

    #[test]
    fn the_secret_is_in_the_header_or_in_the_body() {
        let basic = client(OauthMethod::ClientSecretBasic);
        assert_eq!(basic.form(), "grant_type=client_credentials&scope=a+b+c&audience=https%3A%2F%2Fx%2F");
        let header = basic.authorization().unwrap();
        let pair = BASE64.decode(header.strip_prefix("Basic ").unwrap()).unwrap();
        assert_eq!(pair, b"id%3A1:s%26cret");
        let post = client(OauthMethod::ClientSecretPost);
        assert_eq!(post.authorization(), None);
        assert!(post.form().contains("&client_id=id%3A1&client_secret=s%26cret&"), "{}", post.form());
        assert_ne!(basic.id(), post.id());
    }

    #[test]
    fn a_token_is_used_for_less_than_its_life() {
        let life = |reply: &str| Token::read(reply.as_bytes()).map(|token| token.life.as_secs());
        assert_eq!(life(r#"{"access_token": "t", "token_type": "bearer", "expires_in": 600}"#), Ok(570));
        assert_eq!(life(r#"{"access_token": "t", "token_type": "Bearer", "expires_in": "100"}"#), Ok(90));
        assert_eq!(life(r#"{"access_token": "t"}"#), Ok(270));
        assert_eq!(life(r#"{"access_token": "t", "expires_in": 1e9}"#), Ok(3570));
        assert_eq!(life(r#"{"access_token": "t", "expires_in": -5}"#), Ok(270));
        assert_eq!(life(r#"{"access_token": "t", "expires_in": 0}"#), Ok(0));
    }

    #[test]
    fn other_replies_are_no_tokens() {
        let read = |reply: &str| Token::read(reply.as_bytes()).unwrap_err();
        for reply in ["", "null", "[]", "{}", r#"{"access_token": 5}"#, "<html>"] {
            assert_eq!(read(reply), BadToken::Unreadable, "{reply}");
        }
        assert_eq!(read(r#"{"access_token": "t", "token_type": "mac"}"#), BadToken::NotBearer);
        for token in ["", "a b", "a\\r\\nx: y", "ü"] {
            assert_eq!(read(&format!(r#"{{"access_token": "{token}"}}"#)), BadToken::NotAHeader, "{token}");
        }
        let long = "x".repeat(TOKEN_BYTES_MAX + 1);
        assert_eq!(read(&format!(r#"{{"access_token": "{long}"}}"#)), BadToken::NotAHeader);
    }

    #[test]
    fn no_secret_is_in_the_debug_form() {
        let auth = EndpointAuth {
            basic: Some(BasicAuth { username: "canary".to_owned(), password: "canary".to_owned() }),
            oauth: Some(OauthClient { client_secret: "canary".to_owned(), ..client(OauthMethod::ClientSecretPost) }),
            identity: Some("canary".to_owned()),
            ca: Some("canary".to_owned()),
        };
        let shown = format!("{auth:?} {:?} {:?}", auth.basic, auth.oauth);
        assert!(!shown.contains("canary"), "{shown}");
    }

    #[test]
    fn connections_with_other_material_have_another_id() {
        let auth = |identity: Option<&str>, ca: Option<&str>| EndpointAuth {
            identity: identity.map(str::to_owned),
            ca: ca.map(str::to_owned),
            ..EndpointAuth::default()
        };
        assert_eq!(auth(None, None).connection_id(), None);
        assert_eq!(auth(Some("a"), None).connection_id(), auth(Some("a"), None).connection_id());
        assert_ne!(auth(Some("a"), None).connection_id(), auth(None, Some("a")).connection_id());
        assert_ne!(auth(Some("a"), Some("b")).connection_id(), auth(Some("b"), Some("a")).connection_id());
    }
}
