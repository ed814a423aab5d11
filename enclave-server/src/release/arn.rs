//! The ARN of a KMS key.

use std::fmt;
use std::str::FromStr;

/// `arn:aws:kms:REGION:ACCOUNT:key/UUID`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyArn(String);

impl KeyArn {
    /// The ARN as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyArn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The text is not the ARN of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[error("`{0}` {1}")]
#[coded(
    "KEY_ARN_INVALID",
    remedy = "Write the key's full ARN, as arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab."
)]
pub struct InvalidKeyArn(String, &'static str);

impl FromStr for KeyArn {
    type Err = InvalidKeyArn;

    fn from_str(text: &str) -> Result<Self, InvalidKeyArn> {
        let refuse = |reason| Err(InvalidKeyArn(text.escape_default().to_string(), reason));
        let parts: Vec<&str> = text.split(':').collect();
        let ["arn", partition, "kms", region, account, resource] = parts[..] else {
            return refuse("is not the ARN of a KMS key");
        };
        let is_plain = |text: &str| {
            !text.is_empty()
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        };
        let digits = account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit());
        if !partition.starts_with("aws") || !is_plain(partition) || !is_plain(region) || !digits {
            return refuse("is not the ARN of a KMS key");
        }
        match resource.split_once('/') {
            Some(("alias", _)) => refuse("is an alias, which can point to another key later"),
            // Its copies in other regions have separate policies.
            Some(("key", id)) if id.starts_with("mrk-") => refuse("is a multi-Region key"),
            Some(("key", id)) if id.len() == 36 && is_plain(id) => Ok(Self(text.to_owned())),
            _ => refuse("is not the ARN of a KMS key"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str =
        "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab";

    #[test]
    fn only_the_full_arn_of_one_key_is_accepted() {
        assert_eq!(KEY.parse::<KeyArn>().unwrap().as_str(), KEY);
        for bad in [
            "",
            "1234abcd-12ab-34cd-56ef-1234567890ab",
            "alias/model",
            "arn:aws:kms:eu-central-1:111122223333:alias/model",
            "arn:aws:kms:eu-central-1:111122223333:key/mrk-1234abcd12ab34cd56ef1234567890ab",
            "arn:aws:kms:eu-central-1:111122223333:key/",
            "arn:aws:kms:eu-central-1:1111:key/1234abcd-12ab-34cd-56ef-1234567890ab",
            "arn:aws:s3:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab",
            &format!("{KEY}:x"),
            &format!("{KEY}\n"),
        ] {
            let error = bad.parse::<KeyArn>().unwrap_err();
            assert_eq!(error.code(), "KEY_ARN_INVALID", "{bad}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}
