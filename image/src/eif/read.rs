//! Parses untrusted images.

use super::{
    ARM64, Eif, EifError, HEADER, MAGIC, Metadata, SECTION_HEADER, SECTIONS_MAX, Section, VERSION,
    checksum,
};

pub(super) fn parse(file: &[u8]) -> Result<Eif, EifError> {
    let mut header = Reader {
        rest: file
            .get(..HEADER)
            .ok_or(EifError::Truncated("its header"))?,
    };
    if header.take(4, "its header")? != MAGIC {
        return Err(EifError::Field {
            field: "the magic number",
            value: u64::from_be_bytes(*file.first_chunk().unwrap_or(&[0; 8])) >> 32,
        });
    }
    header.expect_u16("the version", VERSION)?;
    match header.u16("its header")? {
        0 => {}
        ARM64 => return Err(EifError::Architecture),
        other => {
            return Err(EifError::Field {
                field: "the field of flags",
                value: other.into(),
            });
        }
    }
    header.take(16, "its header")?;
    header.expect_u16("the reserved field", 0)?;
    let count = header.u16("its header")?;
    if usize::from(count) > SECTIONS_MAX {
        return Err(EifError::Field {
            field: "the number of sections",
            value: count.into(),
        });
    }
    let offsets = header.table()?;
    let sizes = header.table()?;
    header.take(4, "its header")?;
    let found = u32::from_be_bytes(header.array("its header")?);
    let computed = checksum(file);
    if found != computed {
        return Err(EifError::Checksum { found, computed });
    }

    let mut parts = Parts::default();
    let mut body = Reader {
        rest: file.get(HEADER..).unwrap_or_default(),
    };
    let mut at = HEADER as u64;
    for (&offset, &size) in offsets.iter().zip(&sizes).take(count.into()) {
        if offset != at {
            return Err(EifError::Field {
                field: "a section's offset",
                value: offset,
            });
        }
        let kind = body.u16("a section's head")?;
        body.expect_u16("a section's flags", 0)?;
        let stated = u64::from_be_bytes(body.array("a section's head")?);
        if stated != size {
            return Err(EifError::Field {
                field: "a section's size",
                value: stated,
            });
        }
        // A size that does not fit into `usize` exceeds the file.
        let length = usize::try_from(size).map_err(|_| EifError::Truncated("a section"))?;
        parts.add(kind, body.take(length, "a section")?)?;
        at = at
            .saturating_add(SECTION_HEADER as u64)
            .saturating_add(size);
    }
    if !body.rest.is_empty() {
        return Err(EifError::Sections("there are bytes after the last section"));
    }
    parts.finish()
}

#[derive(Default)]
struct Parts {
    kernel: Option<Vec<u8>>,
    command_line: Option<String>,
    metadata: Option<Metadata>,
    ramdisks: Vec<Vec<u8>>,
    signature: Option<Vec<u8>>,
}

impl Parts {
    fn add(&mut self, kind: u16, content: &[u8]) -> Result<(), EifError> {
        const KERNEL: u16 = Section::Kernel as u16;
        const COMMAND_LINE: u16 = Section::CommandLine as u16;
        const RAMDISK: u16 = Section::Ramdisk as u16;
        const SIGNATURE: u16 = Section::Signature as u16;
        const METADATA: u16 = Section::Metadata as u16;
        let again = match kind {
            KERNEL => self.kernel.replace(content.to_vec()).is_some(),
            COMMAND_LINE => {
                let text = String::from_utf8(content.to_vec())
                    .map_err(|_| EifError::Text("the command line"))?;
                self.command_line.replace(text).is_some()
            }
            METADATA => {
                let read =
                    serde_json::from_slice(content).map_err(|_| EifError::Text("the metadata"))?;
                self.metadata.replace(read).is_some()
            }
            RAMDISK => {
                self.ramdisks.push(content.to_vec());
                false
            }
            SIGNATURE => self.signature.replace(content.to_vec()).is_some(),
            other => {
                return Err(EifError::Field {
                    field: "a section's type",
                    value: other.into(),
                });
            }
        };
        if again {
            return Err(EifError::Sections(
                "a section that exists once is there twice",
            ));
        }
        Ok(())
    }

    fn finish(self) -> Result<Eif, EifError> {
        if self.ramdisks.is_empty() {
            return Err(EifError::Ramdisks(0));
        }
        Ok(Eif {
            kernel: self
                .kernel
                .ok_or(EifError::Sections("there is no kernel"))?,
            command_line: self
                .command_line
                .ok_or(EifError::Sections("there is no command line"))?,
            metadata: self
                .metadata
                .ok_or(EifError::Sections("there is no metadata"))?,
            ramdisks: self.ramdisks,
            signature: self.signature,
        })
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize, of: &'static str) -> Result<&'a [u8], EifError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or(EifError::Truncated(of))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, of: &'static str) -> Result<[u8; N], EifError> {
        let (taken, rest) = self
            .rest
            .split_first_chunk()
            .ok_or(EifError::Truncated(of))?;
        self.rest = rest;
        Ok(*taken)
    }

    fn u16(&mut self, of: &'static str) -> Result<u16, EifError> {
        self.array(of).map(u16::from_be_bytes)
    }

    fn expect_u16(&mut self, field: &'static str, expected: u16) -> Result<(), EifError> {
        match self.u16(field)? {
            found if found == expected => Ok(()),
            found => Err(EifError::Field {
                field,
                value: found.into(),
            }),
        }
    }

    fn table(&mut self) -> Result<[u64; SECTIONS_MAX], EifError> {
        let mut table = [0; SECTIONS_MAX];
        for entry in &mut table {
            *entry = u64::from_be_bytes(self.array("its header")?);
        }
        Ok(table)
    }
}
