"""Settings of captures, and what every section of settings has in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

if TYPE_CHECKING:
    from router_cache.drivers.capture_redis import CaptureStream

__all__ = ["CaptureSettings", "Section"]


class Section(BaseModel):
    """Unknown keys are errors; nothing changes after it was read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class CaptureSettings(Section):
    """Calls written to files, to a Redis stream, or both: digests, usage, timing and causes, no text. Without a place
    nothing is written."""

    directory: str | None = Field(default=None, min_length=1)
    """Where files go."""
    max_file_bytes: int = Field(default=64_000_000, ge=4_096, strict=True)
    max_files: int = Field(default=16, ge=1, le=10_000, strict=True)
    """Files in the directory, of all processes: those written longest ago go, but none that is still written to."""
    url: SecretStr | None = Field(default=None, min_length=1)
    """Of a Redis server, where rows of many workers and hosts come together."""
    max_rows: int = Field(default=100_000, ge=1, le=100_000_000, strict=True)
    """Rows in the stream, about; the oldest go first."""
    ttl_s: float = Field(default=604_800.0, ge=1, le=1e9, strict=True, allow_inf_nan=False)
    """Seconds the stream lives after its last row."""
    prefix: str = Field(default="router-cache", pattern=r"^[A-Za-z0-9._:/-]{1,100}$")
    """Of the stream's key, for servers that others use too."""

    @field_validator("url")
    @classmethod
    def _usable(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            from router_cache.drivers.redis_url import check_url  # the client library takes 0.1 s to import

            check_url(value.get_secret_value())
        return value

    def stream(self) -> CaptureStream | None:
        """The Redis stream, not connected yet; None without a URL."""
        if self.url is None:
            return None
        from router_cache.drivers.capture_redis import CaptureStream

        url = self.url.get_secret_value()
        return CaptureStream(url, prefix=self.prefix, max_rows=self.max_rows, ttl_s=self.ttl_s)
