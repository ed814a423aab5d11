//! The hardware module, through `/dev/nsm`.

use std::collections::BTreeMap;

use aws_nitro_enclaves_nsm_api::api::{ErrorCode, Request, Response};
use aws_nitro_enclaves_nsm_api::driver::{nsm_exit, nsm_init, nsm_process_request};

use super::{AttestRequest, Nsm, NsmError, Pcr, check_lengths};

/// An open `/dev/nsm`.
pub struct DeviceNsm {
    device: Device,
    pcrs: BTreeMap<u8, Pcr>,
}

impl DeviceNsm {
    /// Opens the device, reads the measurements, and locks the unused registers. Code that runs here later then cannot extend them
    /// with values that a verifier might take for measurements.
    ///
    /// # Errors
    /// [`NsmError::Missing`] outside an enclave; another variant where the module does not answer as documented.
    pub fn open() -> Result<Self, NsmError> {
        let descriptor = nsm_init();
        if descriptor < 0 {
            return Err(NsmError::Missing);
        }
        let device = Device(descriptor);
        let pcrs = (0..PCRS_READ)
            .map(|index| Ok((index, device.pcr(index)?)))
            .collect::<Result<_, NsmError>>()?;
        for index in PCRS_READ..PCRS {
            device.lock(index)?;
        }
        Ok(Self { device, pcrs })
    }
}

impl Nsm for DeviceNsm {
    fn attest(&self, request: &AttestRequest<'_>) -> Result<Vec<u8>, NsmError> {
        check_lengths(request)?;
        let response = self.device.request(Request::Attestation {
            nonce: Some(request.nonce.to_vec().into()),
            user_data: Some(request.user_data.to_vec().into()),
            public_key: Some(request.public_key.to_vec().into()),
        })?;
        read_document(response)
    }

    fn random(&self) -> Result<[u8; 32], NsmError> {
        random(&self.device.request(Request::GetRandom)?)
    }

    fn pcrs(&self) -> &BTreeMap<u8, Pcr> {
        &self.pcrs
    }

    fn development_root(&self) -> Option<&[u8]> {
        None
    }
}

/// Registers to read. Those with a meaning to AWS (0 to 4 and 8) are below this.
const PCRS_READ: u8 = 16;
/// Registers of a module. Documents show those that were extended or locked.
const PCRS: u8 = 32;
const DOCUMENT_MAX: usize = 16 * 1024;

struct Device(i32);

impl Device {
    fn request(&self, request: Request) -> Result<Response, NsmError> {
        match nsm_process_request(self.0, request) {
            Response::Error(code) => Err(NsmError::Refused {
                code: code_name(&code),
            }),
            response => Ok(response),
        }
    }

    /// Locks a register unless it is locked, because the module refuses a second lock.
    fn lock(&self, index: u8) -> Result<(), NsmError> {
        let described = self.request(Request::DescribePCR {
            index: index.into(),
        })?;
        if is_locked(&described)? {
            return Ok(());
        }
        check_locked(&self.request(Request::LockPCR {
            index: index.into(),
        })?)
    }

    fn pcr(&self, index: u8) -> Result<Pcr, NsmError> {
        pcr(&self.request(Request::DescribePCR {
            index: index.into(),
        })?)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        nsm_exit(self.0);
    }
}

fn read_document(response: Response) -> Result<Vec<u8>, NsmError> {
    match response {
        Response::Attestation { document } if (1..=DOCUMENT_MAX).contains(&document.len()) => {
            Ok(document)
        }
        Response::Attestation { .. } => Err(NsmError::Answer {
            what: "a document of an impossible size",
        }),
        _ => Err(NsmError::Answer {
            what: "something else than a document",
        }),
    }
}

fn pcr(response: &Response) -> Result<Pcr, NsmError> {
    match response {
        Response::DescribePCR { data, .. } => {
            data.as_slice().try_into().map_err(|_| NsmError::Answer {
                what: "a measurement that is not SHA-384",
            })
        }
        _ => Err(NsmError::Answer {
            what: "something else than a measurement",
        }),
    }
}

fn is_locked(response: &Response) -> Result<bool, NsmError> {
    match response {
        Response::DescribePCR { lock, .. } => Ok(*lock),
        _ => Err(NsmError::Answer {
            what: "something else than a measurement",
        }),
    }
}

fn check_locked(response: &Response) -> Result<(), NsmError> {
    match response {
        Response::LockPCR => Ok(()),
        _ => Err(NsmError::Answer {
            what: "something else than that a register is locked",
        }),
    }
}

fn random(response: &Response) -> Result<[u8; 32], NsmError> {
    match response {
        Response::GetRandom { random } => random.first_chunk().copied().ok_or(NsmError::Answer {
            what: "fewer than 32 random bytes",
        }),
        _ => Err(NsmError::Answer {
            what: "something else than random bytes",
        }),
    }
}

fn code_name(code: &ErrorCode) -> &'static str {
    match code {
        ErrorCode::Success => "Success",
        ErrorCode::InvalidArgument => "InvalidArgument",
        ErrorCode::InvalidIndex => "InvalidIndex",
        ErrorCode::InvalidResponse => "InvalidResponse",
        ErrorCode::ReadOnlyIndex => "ReadOnlyIndex",
        ErrorCode::InvalidOperation => "InvalidOperation",
        ErrorCode::BufferTooSmall => "BufferTooSmall",
        ErrorCode::InputTooLarge => "InputTooLarge",
        ErrorCode::InternalError => "InternalError",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_device_the_error_names_the_remedy() {
        if std::path::Path::new("/dev/nsm").exists() {
            println!("skipped: this machine has an NSM");
            return;
        }
        let Err(error) = DeviceNsm::open() else {
            panic!("opened")
        };
        assert!(error.remedy().contains("--simulate-nsm"), "{error}");
    }

    #[test]
    fn lengths_of_answers_are_checked() {
        assert!(read_document(Response::Attestation { document: vec![1] }).is_ok());
        assert!(read_document(Response::Attestation { document: vec![] }).is_err());
        assert!(
            read_document(Response::Attestation {
                document: vec![0; DOCUMENT_MAX + 1]
            })
            .is_err()
        );
        assert!(read_document(Response::LockPCR).is_err());
        assert!(
            pcr(&Response::DescribePCR {
                lock: true,
                data: vec![0; 48]
            })
            .is_ok()
        );
        assert!(
            pcr(&Response::DescribePCR {
                lock: true,
                data: vec![0; 32]
            })
            .is_err()
        );
        let described = |lock| Response::DescribePCR {
            lock,
            data: vec![0; 48],
        };
        assert_eq!(is_locked(&described(true)), Ok(true));
        assert_eq!(is_locked(&described(false)), Ok(false));
        assert!(is_locked(&Response::LockPCR).is_err());
        assert_eq!(check_locked(&Response::LockPCR), Ok(()));
        assert!(check_locked(&described(true)).is_err());
        assert_eq!(
            random(&Response::GetRandom {
                random: vec![7; 256]
            }),
            Ok([7; 32])
        );
        assert!(
            random(&Response::GetRandom {
                random: vec![7; 31]
            })
            .is_err()
        );
    }
}
