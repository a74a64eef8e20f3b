from .average_precision import average_precision
from .boxes import box_iou, center_to_corners_format, generalized_box_iou
from .matching import hungarian_match
from .set_loss import hungarian_loss
