"""What a report shows, read from its page."""

import json
from pathlib import Path
from typing import Any


def page_data(path: Path) -> Any:
    """The data in a `report.html`, from which its script draws the page."""
    text = path.read_text(encoding="utf-8")
    return json.loads(text.split('id="data">')[1].split("</script>")[0])
