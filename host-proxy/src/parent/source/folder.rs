//! Models in a folder: `DIR/NAME/model.sealed` and `DIR/NAME/data-key.wrapped`.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::{Artifact, Container, ModelName, Reading, Source, SourceError};

pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn open(folder: &Path) -> anyhow::Result<Self> {
        anyhow::ensure!(
            folder.is_dir(),
            "{} is not a folder; name one that holds NAME/model.sealed with --models",
            folder.display()
        );
        Ok(Self(folder.to_owned()))
    }
}

impl Source for Folder {
    fn open<'a>(&'a self, name: &'a ModelName, file: Artifact) -> Reading<'a, Arc<dyn Container>> {
        let path = self.0.join(name.path(file));
        Box::pin(async move {
            let shown = path.display().to_string();
            let opened = blocking(move || {
                let file = File::open(path)?;
                let length = file.metadata()?.len();
                Ok((file, length))
            });
            let (file, length) = opened.await.map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => SourceError::Unknown(shown.clone()),
                _ => SourceError::Unavailable(format!("{shown}: {error}")),
            })?;
            let file = Arc::new(file);
            Ok(Arc::new(OpenFile {
                file,
                length,
                shown,
            }) as Arc<dyn Container>)
        })
    }
}

/// An open file. It keeps its contents where another file takes its name.
struct OpenFile {
    file: Arc<File>,
    length: u64,
    shown: String,
}

impl Container for OpenFile {
    fn length(&self) -> u64 {
        self.length
    }

    fn read(&self, range: Range<u64>) -> Reading<'_, Bytes> {
        let file = Arc::clone(&self.file);
        Box::pin(async move {
            let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
            let read = blocking(move || {
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, range.start)?;
                Ok(Bytes::from(bytes))
            });
            read.await
                .map_err(|error| SourceError::Unavailable(format!("{}: {error}", self.shown)))
        })
    }

    /// One part is read while the other is sent.
    fn parallel(&self) -> usize {
        2
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)?
}
