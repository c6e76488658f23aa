//! One call of an operation, and its answer.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use svix::Error;

pub(crate) type Answer = Result<Value, Failure>;

/// A line of the input.
#[derive(Deserialize)]
pub(crate) struct Call {
    pub(crate) id: u64,
    pub(crate) token: String,
    pub(crate) operation: String,
    path: Vec<String>,
    body: Value,
    options: Map<String, Value>,
}

pub(crate) enum Failure {
    /// The crate returned an error.
    Client(Error),
    /// The call does not fit the operation.
    Unknown(String),
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Failure::Unknown(error.to_string())
    }
}

impl Call {
    pub(crate) fn path(&self, position: usize) -> Result<String, Failure> {
        self.path.get(position).cloned().ok_or_else(|| Failure::Unknown("a path parameter is missing".to_owned()))
    }

    pub(crate) fn body<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        Ok(serde_json::from_value(self.body.clone())?)
    }

    pub(crate) fn option<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Failure> {
        let value = self.options.get(name).cloned().unwrap_or_default();
        Ok(serde_json::from_value(value)?)
    }
}

/// Returns the line of the output that answers the call with this id.
pub(crate) fn line(id: u64, answer: Answer) -> Value {
    match answer {
        Ok(value) => json!({ "id": id, "answer": value }),
        Err(Failure::Client(Error::Http(error))) => {
            json!({ "id": id, "status": error.status.as_u16(), "problem": error.payload })
        }
        Err(Failure::Client(Error::Validation(error))) => {
            json!({ "id": id, "status": error.status.as_u16(), "problem": error.payload })
        }
        Err(Failure::Client(error)) => json!({ "id": id, "broken": format!("{error:?}") }),
        Err(Failure::Unknown(reason)) => json!({ "id": id, "broken": reason }),
    }
}
