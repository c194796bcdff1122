"""Models: those that come with the package, and any MJCF file."""

from __future__ import annotations

from pathlib import Path

import mujoco

from lanekit.errors import ModelError

_MODELS = Path(__file__).with_name("models")
_SUFFIXES = (".xml", ".mjcf", ".urdf", ".mjb")


def built_in_models() -> dict[str, Path]:
    """Return the models that come with the package, by name."""
    return {path.stem: path for path in sorted(_MODELS.glob("*.xml"))}


def find_model(model: str | Path) -> Path:
    """Return the file of a model that is given by its path, or by the name of a built-in one."""
    path = Path(model)
    if path.is_file():
        return path
    known = built_in_models()
    if path.parent == Path() and path.stem in known and path.suffix in ("", ".xml"):
        return known[path.stem]
    if path.is_dir():
        raise ModelError(f"model {str(model)!r} is a directory; name the MJCF file in it")
    raise ModelError(
        f"model {str(model)!r}: no such file, and no built-in model; "
        f"built in are {', '.join(known)}"
    )


def load_model(path: Path) -> mujoco.MjModel:
    """Compile a model; what is wrong with it is told in MuJoCo's own words."""
    if path.suffix.lower() not in _SUFFIXES:
        raise ModelError(
            f"model {str(path)!r}: MuJoCo reads {', '.join(_SUFFIXES)}, and this is {path.suffix!r}"
        )
    try:
        load = mujoco.MjModel.from_binary_path if path.suffix == ".mjb" else None
        model = (load or mujoco.MjModel.from_xml_path)(str(path))
    except (ValueError, RuntimeError, OSError) as error:
        raise ModelError(f"model {str(path)!r}: MuJoCo can not load it: {error}") from error
    if model.nu == 0:
        raise ModelError(
            f"model {str(path)!r} has no actuators, so there is nothing to act with; "
            "give it an <actuator> section"
        )
    if model.nq == 0:
        raise ModelError(f"model {str(path)!r} has no joints, so there is nothing to simulate")
    return model


def name_of(model: mujoco.MjModel, kind: mujoco.mjtObj, index: int) -> str:
    """Return what an object is called; those without a name are called after their number."""
    given: str | None = mujoco.mj_id2name(model, kind, index)
    return given or f"{kind.name.removeprefix('mjOBJ_').lower()}_{index}"


def names_of(model: mujoco.MjModel, kind: mujoco.mjtObj, count: int) -> list[str]:
    """Return what all objects of a kind are called."""
    return [name_of(model, kind, index) for index in range(count)]
