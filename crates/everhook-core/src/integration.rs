//! Integrations: lasting, named keys of one application, for tools that act on its behalf.
//!
//! The key is the text `integsk_`, the address of the integration, randomness and a checksum. The address lets the
//! server find the integration by its primary key. Stores keep only the SHA-256 of the key.

use std::fmt;
use std::str::FromStr;

use crate::api_key::{self, ApiKeyHash, KEY_RANDOM_BYTES};
use crate::id::{ApplicationId, EnvironmentId, ID_CHARS, Id, IntegrationId};
use crate::name::Name;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Integration {
    pub id: IntegrationId,
    pub application: ApplicationId,
    pub name: String,
    /// The key sees event types behind these flags.
    pub feature_flags: Vec<Name>,
    /// The hash of the current key; none before the first rotation.
    pub key: Option<ApiKeyHash>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Raised by every change; a concurrent change is detected by it.
    pub revision: i64,
}

const PREFIX: &str = "integsk_";
/// Hexadecimal digits of the environment's number.
const ENVIRONMENT_CHARS: usize = 8;

#[derive(Clone, PartialEq, Eq)]
pub struct IntegrationKey {
    text: String,
    pub environment: EnvironmentId,
    pub application: ApplicationId,
    pub id: IntegrationId,
}

/// Error of text with a wrong prefix, length, alphabet or checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a valid integration key")]
pub struct BadIntegrationKey;

impl IntegrationKey {
    pub fn generate(
        environment: EnvironmentId,
        integration: &Integration,
        random: [u8; KEY_RANDOM_BYTES],
    ) -> IntegrationKey {
        let (application, id) = (integration.application, integration.id);
        let address = format!("{PREFIX}{:08x}{}{}", environment.0, application.0, id.0);
        let text = api_key::compose(address, random);
        IntegrationKey { text, environment, application, id }
    }

    /// Returns the secret text: show it once, never log it.
    pub fn expose(&self) -> &str {
        &self.text
    }

    pub fn hash(&self) -> ApiKeyHash {
        api_key::hash_of(&self.text)
    }
}

impl FromStr for IntegrationKey {
    type Err = BadIntegrationKey;

    fn from_str(text: &str) -> Result<IntegrationKey, BadIntegrationKey> {
        let address = api_key::address_of(text, PREFIX, ENVIRONMENT_CHARS + 2 * ID_CHARS).ok_or(BadIntegrationKey)?;
        let (environment, ids) = address.split_at(ENVIRONMENT_CHARS);
        let (application, id) = ids.split_at(ID_CHARS);
        let id_of = |text: &str| text.parse::<Id>().map_err(|_| BadIntegrationKey);
        Ok(IntegrationKey {
            text: text.to_owned(),
            environment: EnvironmentId(i32::from_str_radix(environment, 16).map_err(|_| BadIntegrationKey)?),
            application: ApplicationId(id_of(application)?),
            id: IntegrationId(id_of(id)?),
        })
    }
}

impl fmt::Debug for IntegrationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IntegrationKey(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn integration() -> Integration {
        Integration {
            id: IntegrationId(Id::MAX),
            application: ApplicationId(Id::MIN.successor()),
            name: "Tool".to_owned(),
            feature_flags: Vec::new(),
            key: None,
            created_at: Timestamp::default(),
            updated_at: Timestamp::default(),
            revision: 1,
        }
    }

    #[test]
    fn a_key_leads_to_its_integration() {
        let key = IntegrationKey::generate(EnvironmentId(12), &integration(), [3; KEY_RANDOM_BYTES]);
        let read: IntegrationKey = key.expose().parse().unwrap();
        assert_eq!(read, key);
        assert_eq!((read.environment, read.id), (EnvironmentId(12), integration().id));
        assert_eq!(read.application, integration().application);
        assert_eq!(format!("{read:?}"), "IntegrationKey(redacted)");
        let other = IntegrationKey::generate(EnvironmentId(12), &integration(), [4; KEY_RANDOM_BYTES]);
        assert_ne!(other.hash(), key.hash());
    }

    #[test]
    fn other_texts_are_no_keys() {
        let key = IntegrationKey::generate(EnvironmentId(12), &integration(), [3; KEY_RANDOM_BYTES]);
        let text = key.expose();
        for bad in ["", "integsk_", "integsk_é", &text[1..], &text[..text.len() - 1], &text.replace("0c", "0d")] {
            assert_eq!(bad.parse::<IntegrationKey>(), Err(BadIntegrationKey), "{bad}");
        }
    }
}
