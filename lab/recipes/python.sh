# A Python with the packages in requirements.txt, sourced by the other scripts: `python` is it.
# It is made once, below target/; made anew when the file changes.
venv=${CARGO_TARGET_DIR:-$here/../../target}/lab-python
python=$venv/bin/python
if ! cmp -s "$here/requirements.txt" "$venv/made-from"; then
  command -v python3 >/dev/null || skip "no python3"
  rm -rf "$venv"
  python3 -m venv "$venv" 2>/dev/null || skip "no venv in python3 (package python3-venv)"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt" ||
    { rm -rf "$venv"; skip "pip cannot install requirements.txt"; }
  cp "$here/requirements.txt" "$venv/made-from"
fi
