//! `everhook verify`: checks the signature of a received request and says what is wrong.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use everhook_core::verify::{Invalid, Signed, VerifyingKey, verify};

use crate::cli::print;
use crate::endpoint::header_pairs;
use crate::exit::{Exit, Failure, usage};
use crate::when;

/// Largest difference between the timestamp and the clock, as Standard Webhooks recommends it.
pub(crate) const TOLERANCE: &str = "5m";

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Secret of the endpoint: whsec_… or whpk_….
    #[arg(long, value_name = "SECRET")]
    secret: String,
    /// Header of the request; needed for webhook-id, webhook-timestamp and webhook-signature. Others are ignored.
    #[arg(long = "header", short = 'H', value_name = "NAME: VALUE", required = true)]
    headers: Vec<String>,
    /// Body of the request, exactly as received [default: stdin].
    #[arg(conflicts_with = "file")]
    body: Option<String>,
    /// Read the body from this file.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Accepted age of the request, and accepted difference of the clocks.
    #[arg(long, value_name = "DURATION", default_value = TOLERANCE, value_parser = when::span)]
    tolerance: Duration,
}

impl VerifyArgs {
    /// Prints that the request is genuine, or fails with the reason.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let key = parse_secret(&self.secret)?;
        let given = header_pairs(&self.headers)?;
        let headers = SignatureHeaders::find(|name| {
            given.iter().find(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone())
        });
        let headers = headers.map_err(|missing| usage(format!("header {missing} is missing: add it with --header")))?;
        let body = match (self.body, self.file) {
            (Some(body), _) => body.into_bytes(),
            (None, Some(file)) => std::fs::read(&file).with_context(|| format!("could not read {}", file.display()))?,
            (None, None) => {
                let mut body = Vec::new();
                std::io::stdin().read_to_end(&mut body).context("could not read stdin")?;
                body
            }
        };
        match headers.verify(&key, &body, self.tolerance) {
            Ok(()) => print(&format!("{} is genuine\n", headers.id)),
            Err(invalid) => Err(Failure::error(Exit::Failed, format!("{} is not genuine: {invalid}", headers.id))),
        }
    }
}

/// The three headers of a signed request.
pub(crate) struct SignatureHeaders {
    pub(crate) id: String,
    timestamp: String,
    signature: String,
}

impl SignatureHeaders {
    /// Reads the headers, also under their older names. Fails with the name of a missing one.
    pub(crate) fn find(header: impl Fn(&str) -> Option<String>) -> Result<SignatureHeaders, &'static str> {
        let find = |names: [&'static str; 2]| names.iter().find_map(|name| header(name)).ok_or(names[0]);
        Ok(SignatureHeaders {
            id: find(["webhook-id", "svix-id"])?,
            timestamp: find(["webhook-timestamp", "svix-timestamp"])?,
            signature: find(["webhook-signature", "svix-signature"])?,
        })
    }

    pub(crate) fn verify(&self, key: &VerifyingKey, body: &[u8], tolerance: Duration) -> Result<(), Invalid> {
        let SignatureHeaders { id, timestamp, signature } = self;
        verify(key, Signed { id, timestamp, signature, body }, when::now(), tolerance)
    }
}

pub(crate) fn parse_secret(text: &str) -> anyhow::Result<VerifyingKey> {
    text.trim().parse().map_err(|error| usage(format!("invalid secret: it {error}")))
}
