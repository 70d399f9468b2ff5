#!/usr/bin/env bash
# Packs the folder ROOT as the one layer of an OCI image that runs /usr/bin/fathom. The archive has
# the layout that podman, skopeo and containerd read, and the manifest.json of `docker load`.
set -euo pipefail
root=$1 version=$2 platform=$3 output=$4
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)
image=$(mktemp -d)
trap 'rm -rf "$image"' EXIT
mkdir -p "$image/blobs/sha256"

archive() { # folder
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --format=ustar \
    -C "$1" -c .
}
# Moves standard input to its blob, and prints its digest.
blob() {
  cat >"$image/blob"
  local digest
  digest=$(sha256sum <"$image/blob" | cut -d' ' -f1)
  mv "$image/blob" "$image/blobs/sha256/$digest"
  echo "$digest"
}
described() { # media type, digest
  printf '{"mediaType":"application/vnd.oci.image.%s","digest":"sha256:%s","size":%s' \
    "$1" "$2" "$(stat -c %s "$image/blobs/sha256/$2")"
}

unpacked=$(archive "$root" | sha256sum | cut -d' ' -f1)
layer=$(archive "$root" | gzip -9n | blob)
config=$(blob <<END
{"created":"$created","architecture":"$platform","os":"linux",
"config":{"Entrypoint":["/usr/bin/fathom"],"Env":["PATH=/usr/bin"],"Labels":{
"org.opencontainers.image.title":"fathom","org.opencontainers.image.version":"$version",
"org.opencontainers.image.licenses":"(MIT OR Apache-2.0) AND CC-BY-SA-4.0"}},
"rootfs":{"type":"layers","diff_ids":["sha256:$unpacked"]},
"history":[{"created":"$created","created_by":"scripts/oci.sh"}]}
END
)
manifest=$(blob <<END
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",
"config":$(described config.v1+json "$config")},
"layers":[$(described layer.v1.tar+gzip "$layer")}]}
END
)
cat >"$image/index.json" <<END
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[
$(described manifest.v1+json "$manifest"),
"platform":{"architecture":"$platform","os":"linux"},
"annotations":{"org.opencontainers.image.ref.name":"$version",
"io.containerd.image.name":"localhost/fathom:$version"}}]}
END
cat >"$image/manifest.json" <<END
[{"Config":"blobs/sha256/$config","RepoTags":["localhost/fathom:$version"],
"Layers":["blobs/sha256/$layer"]}]
END
echo '{"imageLayoutVersion":"1.0.0"}' >"$image/oci-layout"
chmod 755 "$image"
archive "$image" >"$output"
