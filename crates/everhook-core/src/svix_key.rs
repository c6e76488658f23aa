//! Signing keys as a Svix database stores them.
//!
//! A stored key has a marker byte: 1 for a shared secret, 2 for an ed25519 pair, plus 128 if the rest is encrypted with
//! the server's main secret (XChaCha20-Poly1305, the nonce first). Pure. Called by `everhook import svix`.

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::signing::{BadSigningKey, SigningKey};

const ENCRYPTED: u8 = 0b1000_0000;
const NONCE_BYTES: usize = 24;
/// Bytes of the nonce that only derive the key of the message.
const HCHACHA_NONCE_BYTES: usize = 16;

/// The key that a main secret stands for.
pub struct MainSecret([u8; 32]);

impl MainSecret {
    pub fn new(text: &str) -> MainSecret {
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes()), b"main");
        MainSecret(tag.as_ref().try_into().expect("HMAC-SHA256 has 32 bytes"))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSvixKey {
    #[error("is encrypted: pass the main secret of the Svix server with --main-secret")]
    Encrypted,
    #[error("cannot be decrypted: check --main-secret")]
    WrongMainSecret,
    #[error("has an unknown format (marker {0:#04x}): rotate the secret in Svix and import again")]
    Marker(u8),
    #[error("is empty: rotate the secret in Svix and import again")]
    Empty,
    #[error(transparent)]
    Key(#[from] BadSigningKey),
}

/// Reads a stored key. Decrypts it with `main` if it is encrypted.
pub fn read(stored: &[u8], main: Option<&MainSecret>) -> Result<SigningKey, BadSvixKey> {
    let (marker, rest) = stored.split_first().ok_or(BadSvixKey::Empty)?;
    let prefix = match marker & !ENCRYPTED {
        1 => "whsec_",
        2 => "whsk_",
        _ => return Err(BadSvixKey::Marker(*marker)),
    };
    let key = if marker & ENCRYPTED == 0 {
        rest.to_vec()
    } else {
        decrypt(main.ok_or(BadSvixKey::Encrypted)?, rest).ok_or(BadSvixKey::WrongMainSecret)?
    };
    Ok(format!("{prefix}{}", BASE64.encode(key)).parse()?)
}

/// XChaCha20-Poly1305 is ChaCha20-Poly1305 with a key of its own for each nonce.
fn decrypt(main: &MainSecret, sealed: &[u8]) -> Option<Vec<u8>> {
    let (nonce, sealed) = sealed.split_first_chunk::<NONCE_BYTES>()?;
    let key = LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &hchacha20(&main.0, nonce)).ok()?);
    let mut short = [0; 12];
    short[4..].copy_from_slice(&nonce[HCHACHA_NONCE_BYTES..]);
    let mut sealed = sealed.to_vec();
    let open = key.open_in_place(Nonce::assume_unique_for_key(short), Aad::empty(), &mut sealed).ok()?;
    Some(open.to_vec())
}

/// Derives the key of one message from the first bytes of its nonce: HChaCha20 of draft-irtf-cfrg-xchacha.
fn hchacha20(key: &[u8; 32], nonce: &[u8; NONCE_BYTES]) -> [u8; 32] {
    const CONSTANTS: &[u8; 16] = b"expand 32-byte k";
    const COLUMNS: [[usize; 4]; 4] = [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]];
    const DIAGONALS: [[usize; 4]; 4] = [[0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]];
    let mut state = [0_u32; 16];
    let words = CONSTANTS.iter().chain(key).chain(&nonce[..HCHACHA_NONCE_BYTES]).copied().collect::<Vec<_>>();
    for (word, bytes) in state.iter_mut().zip(words.chunks_exact(4)) {
        *word = u32::from_le_bytes(bytes.try_into().expect("chunks of 4"));
    }
    for _ in 0..10 {
        COLUMNS.into_iter().chain(DIAGONALS).for_each(|quarter| quarter_round(&mut state, quarter));
    }
    let mut derived = [0; 32];
    let outer = state[..4].iter().chain(&state[12..]);
    for (bytes, word) in derived.chunks_exact_mut(4).zip(outer) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    derived
}

fn quarter_round(state: &mut [u32; 16], [a, b, c, d]: [usize; 4]) {
    for (left, right, turned, bits) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
        state[left] = state[left].wrapping_add(state[right]);
        state[turned] = (state[turned] ^ state[left]).rotate_left(bits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The secret of the published examples, and its stored form.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const STORED: &str = "0131f290f6bf06298aab4f08d43c3f082cf648a362da2da4b0";

    fn bytes(hex: &str) -> Vec<u8> {
        hex.as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    fn exposed(hex: &str, main: Option<&str>) -> Result<String, BadSvixKey> {
        read(&bytes(hex), main.map(MainSecret::new).as_ref()).map(|key| key.expose())
    }

    #[test]
    fn the_key_derivation_matches_the_test_vector_of_the_draft() {
        let key = std::array::from_fn(|at| u8::try_from(at).unwrap());
        let nonce = bytes("000000090000004a0000000031415927ffffffffffffffff").try_into().unwrap();
        let wanted = "82413b4227b27bfed30e42508a877d73a0f9e4d58a74a853c12ec41326d3ecdc";
        assert_eq!(hchacha20(&key, &nonce).to_vec(), bytes(wanted));
    }

    #[test]
    fn a_plain_key_is_read() {
        assert_eq!(exposed(STORED, None), Ok(SECRET.to_owned()));
        assert_eq!(exposed(STORED, Some("unused")), Ok(SECRET.to_owned()));
        let pair = crate::signing::SignatureKind::Ed25519.generate([9; 32]);
        let text = pair.expose();
        let mut stored = vec![2];
        stored.extend(BASE64.decode(text.strip_prefix("whsk_").unwrap()).unwrap());
        assert_eq!(read(&stored, None), Ok(pair));
    }

    #[test]
    fn an_encrypted_key_needs_the_right_main_secret() {
        let main = MainSecret::new("the main secret");
        // Made with libsodium.
        let stored = bytes(
            "81000102030405060708090a0b0c0d0e0f101112131415161761d448604286241c7e4a6e7942f75cae68bcbf26655b6b002e1e12fc94\
             aef3d0dd0c2af4833d7fc9",
        );
        assert_eq!(read(&stored, Some(&main)).map(|key| key.expose()), Ok(SECRET.to_owned()));
        assert_eq!(read(&stored, None), Err(BadSvixKey::Encrypted));
        assert_eq!(read(&stored, Some(&MainSecret::new("another"))), Err(BadSvixKey::WrongMainSecret));
        assert_eq!(read(&stored[..20], Some(&main)), Err(BadSvixKey::WrongMainSecret));
    }

    #[test]
    fn an_unreadable_key_is_refused_with_a_reason() {
        assert_eq!(exposed("", None), Err(BadSvixKey::Empty));
        assert_eq!(exposed("0331", None), Err(BadSvixKey::Marker(3)));
        assert_eq!(exposed("0131", None), Err(BadSvixKey::Key(BadSigningKey::Length)));
    }
}
